import { byId, fill, h, say, set } from "./dom.js";
import { number } from "./format.js";
import { ask } from "./search-api.js";
import { showEvent } from "./search-event.js";
import { eventTable, showHistogram, storyView } from "./search-results.js";

/*
 * The address has the whole question, so that it can be shared: the filters, `name` for a story, `event` for the
 * event whose detail is open.
 */
const FIELDS = [
  "user",
  "ip",
  "type",
  "service",
  "organization",
  "outcome",
  "application",
  "device",
  "correlation",
  "text",
];
const form = byId("filters");
let running = new AbortController();

const queryOf = () => new URLSearchParams(location.search);

/** Empty for a time that cannot be read: the server says what is wrong with it. */
function toUtc(ms) {
  const time = new Date(ms);
  return Number.isNaN(time.getTime()) ? "" : time.toISOString().slice(0, 19);
}

/** The filters of the address, in the form. */
function fillForm() {
  const query = queryOf();
  for (const name of FIELDS) form.elements[name].value = query.get(name) ?? "";
  for (const name of ["from", "to"])
    form.elements[name].value = query.has(name) ? toUtc(Number(query.get(name))) : "";
}

function formQuery() {
  const query = new URLSearchParams();
  for (const name of FIELDS)
    if (form.elements[name].value.trim() !== "") query.set(name, form.elements[name].value.trim());
  for (const name of ["from", "to"])
    if (form.elements[name].value !== "") query.set(name, Date.parse(`${form.elements[name].value}Z`));
  return query;
}

function go(query) {
  history.pushState(null, "", `?${query}`);
  load();
}

function report(words, state) {
  const line = byId("summary");
  say(line, words);
  set(line, { "data-state": state ?? null });
}

/** Shows what the address asks for. A newer question ends the one before. */
async function load() {
  running.abort();
  running = new AbortController();
  const { signal } = running;
  fillForm();
  const query = queryOf();
  const event = query.get("event");
  query.delete("event");
  report("Searching …");
  try {
    if (query.has("name")) await loadStory(query, signal);
    else await loadEvents(query, signal);
    if (event !== null) await openEvent(event, signal);
  } catch (error) {
    if (signal.aborted) return;
    report(error instanceof TypeError ? "The server cannot be reached." : error.message, "bad");
  }
}

async function loadEvents(query, signal) {
  const answer = await ask(`/api/search/events?${query}`, signal);
  const table = eventTable("Events", (event) => open(event.identity));
  table.add(answer.events);
  showHistogram(answer.histogram, (fromMs, toMs) => {
    const narrowed = formQuery();
    narrowed.set("from", fromMs);
    narrowed.set("to", toMs);
    go(narrowed);
  });
  fill(
    byId("found"),
    answer.events.length > 0
      ? table.table
      : h("p", { class: "note" }, "Nothing was found. Try a longer time or fewer filters."),
  );
  report(summaryOf(answer));
  offerMore(query, answer.next, table, signal);
}

function summaryOf({ total, events, next }) {
  if (total !== null) return `${number(total)} events (from the index), the newest first.`;
  return `${next === null ? "" : "At least "}${number(events.length)} events, the newest first.`;
}

function offerMore(query, next, table, signal) {
  const button = byId("more");
  set(button, { hidden: next === null });
  button.onclick = async () => {
    button.disabled = true;
    try {
      const more = new URLSearchParams(query);
      more.set("after", next);
      const answer = await ask(`/api/search/events?${more}`, signal);
      table.add(answer.events);
      offerMore(query, answer.next, table, signal);
    } catch (error) {
      if (!signal.aborted) report(error.message, "bad");
    } finally {
      button.disabled = false;
    }
  };
}

async function loadStory(query, signal) {
  const answer = await ask(`/api/search/story?${query}`, signal);
  showHistogram(null);
  set(byId("more"), { hidden: true });
  fill(
    byId("found"),
    storyView(answer, (event) => open(event.identity)),
  );
  report(
    `${query.get("name")}: ${number(answer.events)} events in ${number(answer.sessions.length)} sessions.`,
  );
}

function open(identity) {
  const query = queryOf();
  query.set("event", identity);
  history.pushState(null, "", `?${query}`);
  openEvent(identity, running.signal).catch((error) => report(error.message, "bad"));
}

async function openEvent(identity, signal) {
  const event = await ask(`/api/search/event?id=${encodeURIComponent(identity)}`, signal);
  showEvent(event, {
    onFollow: (name) => {
      byId("event-dialog").close();
      go(new URLSearchParams({ name }));
    },
    onClose() {
      const query = queryOf();
      if (!query.has("event")) return;
      query.delete("event");
      history.replaceState(null, "", `?${query}`);
    },
  });
}

form.onsubmit = (event) => {
  event.preventDefault();
  go(formQuery());
};
form.onreset = () => setTimeout(() => go(new URLSearchParams()));
byId("follow").onclick = () => {
  const name = form.elements.user.value.trim() || form.elements.device.value.trim();
  if (name === "") return report("Write a user or a device to follow.", "bad");
  const query = formQuery();
  for (const field of ["user", "device"]) query.delete(field);
  query.set("name", name);
  go(query);
};
window.onpopstate = load;
load();
