import { get } from "./api.js";
import { byId, fill, h, keep, say } from "./dom.js";
import { brief, duration, number, plural } from "./format.js";

const STATES = { good: "running", degraded: "retrying", bad: "stopped", unknown: "unknown" };
const ALARMS_SHOWN = 3;

/** All shards of the config, the worst first; false where the config lists none. */
export async function refreshPeers(nowMs) {
  const view = await get("/api/peers");
  byId("peers-panel").hidden = !view.configured;
  if (!view.configured) return false;
  const { totals } = view;
  say(byId("peers-title"), view.kind === "machines" ? "All machines" : "All shards");
  say(byId("peers-count"), `${number(totals.answering)} of ${number(totals.processes)} answer`);
  say(
    byId("peers-total"),
    `All together: ${plural(totals.organizations, "organization")}, ${plural(totals.events, "event")} read, ${plural(totals.deadLetters, "dead letter")}, ${plural(totals.alarms, "alarm")}.`,
  );
  keep(
    byId("peers-problems"),
    view.problems,
    (problem) => problem,
    (problem) => h("li", { class: "alarm critical" }, h("p", {}, problem)),
    () => {},
  );
  keep(
    byId("peers"),
    view.peers,
    ({ address }) => address ?? "this",
    () =>
      h("li", { class: "entry" }, h("div", { class: "line" }), h("p", { class: "note" }), h("ul"), h("ul")),
    (element, peer) => showPeer(element, peer, nowMs),
  );
  return true;
}

function showPeer(element, peer, nowMs) {
  const [line, note, alarms, lanes] = element.children;
  element.dataset.health = peer.health;
  showLanes(lanes, peer.lanes, nowMs);
  const name = nameOf(peer);
  fill(
    line,
    h("b", {}, name),
    h("span", { class: "chip", "data-state": STATES[peer.health] }, peer.health),
    peer.address === null
      ? h("span", { class: "kind" }, "this page")
      : /^https?:/.test(peer.address)
        ? h("a", { class: "kind", href: peer.address, rel: "noreferrer" }, peer.address)
        : h("span", { class: "kind" }, peer.address),
  );
  say(note, peer.problem === null ? words(peer) : `It does not answer: ${peer.problem}`);
  keep(
    alarms,
    peer.alarms.slice(0, ALARMS_SHOWN),
    ({ kind, subject }) => `${kind} ${subject}`,
    () => h("li", { class: "note" }),
    (item, { severity, kind, subject, message }) =>
      say(
        item,
        `${severity === "critical" ? "Critical" : "Warning"}: ${kind.replaceAll("_", " ")} · ${subject}. ${message}`,
      ),
  );
}

function nameOf({ shard, problem, lanes }) {
  if (lanes !== null) return "Machine";
  if (shard !== null) return `Shard ${shard}`;
  return problem === null ? "All organizations" : "Unknown";
}

/** What a machine of a cluster runs, and since when. */
function showLanes(list, lanes, nowMs) {
  keep(
    list,
    lanes ?? [],
    ({ lane }) => lane,
    () => h("li", { class: "note" }),
    (item, { lane, state, sinceMs, behindEvents, reason }) => {
      const waiting = behindEvents > 0 ? `, up to ${plural(behindEvents, "event")} to deliver` : "";
      say(
        item,
        `Lane ${lane}: ${state} for ${duration(nowMs - sinceMs)}${waiting}${reason === null ? "" : `. ${reason}`}`,
      );
    },
  );
}

function words({ headline, organizations, events, liveLagMs, sinks, deadLetters, alarms, lanes }) {
  const parts = [plural(organizations, "organization"), `${brief(events)} events`];
  if (liveLagMs !== null) parts.push(`reading ${duration(liveLagMs)} behind`);
  if (lanes === null) parts.push(`${number(sinks.running)} of ${plural(sinks.all, "sink")} running`);
  if (sinks.worst !== null) parts.push(worstWords(sinks.worst));
  if (deadLetters > 0) parts.push(plural(deadLetters, "dead letter"));
  if (alarms.length > ALARMS_SHOWN)
    parts.push(`${plural(alarms.length, "alarm")}, the first ${ALARMS_SHOWN} below`);
  return `${headline} ${parts.join(" · ")}`;
}

function worstWords({ name, state, lagEvents, lagMs, isFiltered }) {
  const wait =
    lagEvents > 0
      ? `, ${isFiltered ? "up to " : ""}${plural(lagEvents, "event")} waiting, the oldest for ${duration(lagMs)}`
      : "";
  return `worst sink: ${name} (${state}${wait})`;
}
