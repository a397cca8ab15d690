import { get } from "./api.js";
import { byId, fill, h, keep, say } from "./dom.js";
import { brief, duration, number, plural } from "./format.js";

const STATES = { good: "running", degraded: "retrying", bad: "stopped", unknown: "unknown" };
const ALARMS_SHOWN = 3;

/** All shards of the config, the worst first; false where the config lists none. */
export async function refreshPeers() {
  const view = await get("/api/peers");
  byId("peers-panel").hidden = !view.configured;
  if (!view.configured) return false;
  const { totals } = view;
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
    () => h("li", { class: "entry" }, h("div", { class: "line" }), h("p", { class: "note" }), h("ul")),
    showPeer,
  );
  return true;
}

function showPeer(element, peer) {
  const [line, note, alarms] = element.children;
  element.dataset.health = peer.health;
  const name =
    peer.shard === null ? (peer.problem === null ? "All organizations" : "Unknown") : `Shard ${peer.shard}`;
  fill(
    line,
    h("b", {}, name),
    h("span", { class: "chip", "data-state": STATES[peer.health] }, peer.health),
    peer.address === null
      ? h("span", { class: "kind" }, "this page")
      : h("a", { class: "kind", href: peer.address, rel: "noreferrer" }, peer.address),
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

function words({ headline, organizations, events, liveLagMs, sinks, deadLetters, alarms }) {
  const parts = [plural(organizations, "organization"), `${brief(events)} events`];
  if (liveLagMs !== null) parts.push(`reading ${duration(liveLagMs)} behind`);
  parts.push(`${number(sinks.running)} of ${plural(sinks.all, "sink")} running`);
  if (sinks.worst !== null) parts.push(worstWords(sinks.worst));
  if (deadLetters > 0) parts.push(plural(deadLetters, "dead letter"));
  if (alarms.length > ALARMS_SHOWN)
    parts.push(`${plural(alarms.length, "alarm")}, the first ${ALARMS_SHOWN} below`);
  return `${headline} ${parts.join(" · ")}`;
}

function worstWords({ name, state, lagEvents, lagMs }) {
  const wait =
    lagEvents > 0 ? `, ${plural(lagEvents, "event")} waiting, the oldest for ${duration(lagMs)}` : "";
  return `worst sink: ${name} (${state}${wait})`;
}
