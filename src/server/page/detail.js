import { get } from "./api.js";
import { createCalendar, STATES } from "./calendar.js";
import { byId, fill, h, say } from "./dom.js";
import { ago, brief, dateTime, duration, number } from "./format.js";
import { lagWords } from "./organizations.js";

const WINDOWS_SHOWN = 200;
const NAMES = new Map(STATES.map(([state, name]) => [state, name]));

export function openDialog(title, ...content) {
  const dialog = byId("detail-dialog");
  say(byId("detail-title"), title);
  fill(byId("detail-body"), ...content);
  byId("detail-close").onclick = () => dialog.close();
  if (!dialog.open) dialog.showModal();
}

/** One organization: its days, and every window with the counts of both sides. */
export async function showOrganization(row, nowMs) {
  const query = new URLSearchParams({ account: row.account, organization: row.id, limit: WINDOWS_SHOWN });
  const view = await get(`/api/windows?${query}`);
  const box = h("div", { class: "calendar", id: "organization-calendar" });
  const detail = h("p", { class: "detail" });
  openDialog(
    row.name,
    h("p", { class: "note" }, [row.id, row.account].filter(Boolean).join(" · ")),
    h("dl", { class: "facts" }, ...facts(row, nowMs)),
    box,
    detail,
    windowsTable(view, nowMs),
  );
  createCalendar(box, detail, { unit: "share" }).show(view, nowMs);
}

function facts(row, nowMs) {
  const list = [
    ["Behind", lagWords(row)],
    ["Last event", row.lastEventMs === null ? "none yet" : ago(row.lastEventMs, nowMs)],
    ["Events", row.events === null ? "–" : number(row.events)],
    ["Service counts", row.apiCount === null ? "–" : number(row.apiCount)],
    ["Held of those", row.heldCount === null ? "–" : number(row.heldCount)],
    ["Events an hour", row.eventsPerHour === null ? "–" : brief(row.eventsPerHour)],
    ["Not read yet", row.unreadMs > 0 ? duration(row.unreadMs) : "nothing"],
    ["Lost", row.gapMs > 0 ? duration(row.gapMs) : "nothing"],
    ["Read together with", row.groupSize > 1 ? `${number(row.groupSize - 1)} others` : "none"],
  ];
  // Without a time nothing was read, or another account has taken it over: the page cannot say which.
  if (row.state === "vanished" && row.readToMs !== null) list.push(["Read up to", dateTime(row.readToMs)]);
  if (row.reason !== null) list.push(["Reason", row.reason]);
  return list.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)));
}

function windowsTable(view, nowMs) {
  const head = ["From (UTC)", "To (UTC)", "State", "Service counts", "Held", "Late", "Compared"];
  const rows = view.windows.map((window) =>
    h(
      "tr",
      {},
      h("td", {}, dateTime(window.fromMs)),
      h("td", {}, dateTime(window.toMs)),
      h(
        "td",
        { title: window.reason ?? "" },
        h("i", { class: `swatch ${window.state}` }),
        NAMES.get(window.state),
      ),
      h("td", {}, window.apiCount === null ? "–" : number(window.apiCount)),
      h("td", {}, window.heldCount === null ? "–" : number(window.heldCount)),
      h("td", {}, window.late === null ? "–" : number(window.late)),
      h("td", {}, window.askedMs === null ? "–" : ago(window.askedMs, nowMs)),
    ),
  );
  const more = view.total - view.windows.length;
  const isUncounted = view.windows.some(
    ({ groupSize, apiCount, askedMs }) => groupSize > 1 && apiCount === null && askedMs !== null,
  );
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, ...head.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, ...rows),
    ),
    isUncounted &&
      h(
        "p",
        { class: "note" },
        "Counts of windows that were read together with other organizations appear after their next comparison.",
      ),
    more > 0 && h("p", { class: "note" }, `${number(more)} older windows are not shown.`),
  );
}
