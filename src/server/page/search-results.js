import { byId, fill, h, set } from "./dom.js";
import { dateTime, duration, number } from "./format.js";

const COLUMNS = [
  ["Time (UTC)", (event) => event.timeMs],
  ["Service", (event) => event.service],
  ["Event type", (event) => event.event_type],
  ["Outcome", (event) => event.outcome],
  ["Actor", (event) => event.actor],
  ["Target", (event) => event.target ?? event.application ?? event.device],
  ["From", (event) => [event.ip, event.country].filter(Boolean).join(" ")],
];

export const fullTime = (ms) =>
  ms === null ? "without a time" : new Date(ms).toISOString().replace("T", " ").replace("Z", "");

/** A table of events. The time opens the detail; arrow keys go from row to row. */
export function eventTable(label, onOpen) {
  const body = h("tbody");
  const table = h(
    "table",
    { class: "results", "aria-label": label, onkeydown: (event) => moveFocus(event, body) },
    h("thead", {}, h("tr", {}, ...COLUMNS.map(([name]) => h("th", { scope: "col" }, name)))),
    body,
  );
  return {
    table,
    add: (events) => body.append(...events.map((event) => rowOf(event, onOpen))),
    clear: () => fill(body),
  };
}

function rowOf(event, onOpen) {
  const cells = COLUMNS.map(([name, value], at) => {
    const text = at === 0 ? fullTime(event.timeMs) : (value(event) ?? "");
    const content = at === 0 ? h("button", { type: "button", onclick: () => onOpen(event) }, text) : text;
    const state = text === "" ? "empty" : name === "Outcome" && text === "failure" ? "failure" : "";
    return h("td", { "data-name": name, class: state || null }, content);
  });
  return h("tr", { "data-identity": event.identity }, ...cells);
}

function moveFocus(event, body) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step === undefined) return;
  const buttons = [...body.querySelectorAll("button")];
  const next = buttons[buttons.indexOf(document.activeElement) + step];
  if (next === undefined) return;
  event.preventDefault();
  next.focus();
}

/** Bars that narrow the time when they are pressed. */
export function showHistogram(histogram, onRange) {
  const panel = byId("histogram-panel");
  set(panel, { hidden: histogram === null || histogram.buckets.length === 0 });
  if (panel.hidden) return;
  const { stepMs, buckets } = histogram;
  const most = Math.max(...buckets.map(({ count }) => count));
  const byStart = new Map(buckets.map(({ startMs, count }) => [startMs, count]));
  const bars = [];
  for (let startMs = buckets[0].startMs; startMs <= buckets.at(-1).startMs; startMs += stepMs) {
    const count = byStart.get(startMs) ?? 0;
    const words = `${dateTime(startMs)}: ${number(count)} events`;
    const share = count === 0 ? 0 : Math.max(3, Math.round((count / most) * 100));
    bars.push(
      h("button", {
        type: "button",
        title: words,
        "aria-label": words,
        style: { "--share": `${share}%` },
        onclick: () => onRange(startMs, startMs + stepMs),
      }),
    );
  }
  fill(byId("histogram"), bars);
  fill(byId("histogram-note"), `one bar is ${duration(stepMs, 1)}`);
}

/** The time line of a person or device, session by session. */
export function storyView({ sessions, isCut }, onOpen) {
  const parts = sessions.map((session, at) => {
    const table = eventTable(`Session ${at + 1}`, onOpen);
    table.add(session.events);
    const facts = [session.ips, session.countries, session.devices, session.services]
      .map((list) => list.join(", "))
      .filter(Boolean);
    const failed = session.failures > 0 ? `, ${session.failures} failed` : "";
    return h(
      "section",
      { class: "session" },
      h(
        "h3",
        {},
        `Session ${at + 1}: ${dateTime(session.firstMs)}, ${duration(session.lastMs - session.firstMs)}`,
      ),
      h("p", {}, `${session.events.length} events${failed} · ${facts.join(" · ")}`),
      table.table,
    );
  });
  const note = isCut ? [h("p", { class: "note" }, "There are more events: choose a time.")] : [];
  return [...parts, ...note];
}
