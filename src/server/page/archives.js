import { get } from "./api.js";
import { byId, h, keep, note, say } from "./dom.js";
import { ago, bytes, number, plural } from "./format.js";

/** The archives of this process; the panel is hidden where there is none. */
export async function refreshArchives(nowMs) {
  const view = await get("/api/archives");
  const { archives } = view;
  byId("archives-panel").hidden = archives.length === 0;
  note(byId("archives-note"), view, "");
  const days = archives.reduce((sum, { daysClosed }) => sum + daysClosed, 0);
  say(byId("archives-count"), `${plural(days, "day")} closed`);
  keep(
    byId("archives"),
    archives,
    ({ name }) => name,
    ({ name }) =>
      h(
        "li",
        { class: "sink" },
        h("div", { class: "line" }, h("h3", {}, name), h("span", { class: "chip" })),
        h("dl", { class: "facts" }),
      ),
    (element, archive) => updateArchive(element, archive, nowMs),
  );
}

function updateArchive(element, archive, nowMs) {
  const [line, facts] = element.children;
  const chip = line.lastElementChild;
  const isInvalid = archive.findings !== null && archive.findings > 0;
  chip.dataset.state = isInvalid ? "stopped" : archive.findings === 0 ? "running" : "opening";
  say(
    chip,
    isInvalid ? plural(archive.findings, "finding") : archive.findings === 0 ? "valid" : "not verified yet",
  );
  keep(
    facts,
    factsOf(archive, nowMs),
    ([name]) => name,
    ([name]) => h("div", {}, h("dt", {}, name), h("dd")),
    (fact, [, value]) => say(fact.lastElementChild, value),
  );
}

function factsOf(archive, nowMs) {
  return [
    [
      "Days closed",
      archive.newestDay === null ? "none yet" : `${number(archive.daysClosed)}, up to ${archive.newestDay}`,
    ],
    ["Oldest open day", archive.oldestOpenDay ?? "none"],
    ["Waiting", plural(archive.waitingEvents, "event")],
    ["Moved out of the journal", bytes(archive.stagedBytes)],
    [
      "Last checkpoint",
      archive.checkpointMs === null
        ? "none yet"
        : `${ago(archive.checkpointMs, nowMs)}, ${plural(archive.logEntries, "entry", "entries")}`,
    ],
    ["Last verification", archive.verifiedMs === null ? "none yet" : ago(archive.verifiedMs, nowMs)],
    ["Holds", number(archive.holds)],
    ["Removals due", number(archive.dueRemovals)],
  ];
}
