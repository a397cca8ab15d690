import { byId, h, keep, say } from "./dom.js";
import { brief, bytes, clockTime, duration, percent, plural, waiting } from "./format.js";

/** The headline, the alarms, and seven figures. */
export function showSummary({ status, sinks, rates, calendar, organizations }) {
  const nowMs = status.nowMs;
  document.body.dataset.health = status.health;
  say(byId("headline"), status.headline);
  document.title = status.health === "good" ? "Tidemark" : `⚠ ${status.headline}`;
  say(byId("subline"), subline(status, organizations));
  const uptime = status.startedMs === null ? "not running" : `up ${duration(nowMs - status.startedMs)}`;
  const shard = status.shard === null ? "" : ` · shard ${status.shard}`;
  say(byId("version"), `${status.version}${shard} · ${uptime}`);
  showAlarms(status.alarms, nowMs);
  showTiles(status, sinks, rates, calendar, organizations);
}

function subline({ totals, accounts }, organizations) {
  const worst = organizations?.worstLagMs ?? maximum(accounts.map(({ liveLagMs }) => liveLagMs));
  const parts = [plural(totals.organizations, "organization")];
  if (worst !== null)
    parts.push(`reading is ${worst < 1000 ? "less than 1 s" : `at most ${duration(worst)}`} behind`);
  parts.push(`${plural(totals.events, "event")} read`);
  return `${parts.join(", ")}.`;
}

function showAlarms(alarms, nowMs) {
  keep(
    byId("alarms"),
    alarms,
    ({ kind, subject }) => `${kind} ${subject}`,
    ({ severity }) => h("li", { class: `alarm ${severity}` }, h("h2"), h("p"), h("p", { class: "remedy" })),
    (element, { kind, subject, message, remedy, sinceMs, severity }) => {
      element.className = `alarm ${severity}`;
      const [title, text, what] = element.children;
      const label = severity === "critical" ? "Critical" : "Warning";
      say(
        title,
        `${label}: ${kind.replaceAll("_", " ")} · ${subject} · for ${duration(Math.max(1000, nowMs - sinceMs))}`,
      );
      say(text, message);
      say(what, remedy);
    },
  );
}

function showTiles(status, sinks, rates, calendar, organizations) {
  const { accounts, totals, journal } = status;
  const facts = {
    loss: minimum(accounts.map(({ lossInMs }) => lossInMs)),
    lag: organizations?.worstLagMs ?? maximum(accounts.map(({ liveLagMs }) => liveLagMs)),
    read: calendar === null ? null : completeness(calendar.days),
    used: journal.budgetBytes === null ? 0 : journal.usedBytes / journal.budgetBytes,
    sink: worstSink(sinks),
  };
  keep(
    byId("tiles"),
    tilesOf(status, rates, facts),
    ({ key }) => key,
    () => h("div", { class: "tile" }, h("dt"), h("dd", { class: "figure" }), h("dd", { class: "hint" })),
    (element, { key, name, figure, hint, meaning }) => {
      element.id = `tile-${key}`;
      element.title = meaning;
      element.classList.toggle("bad", isBad(key, facts, totals.differing));
      const [title, value, text] = element.children;
      say(title, name);
      say(value, figure);
      say(text, hint);
    },
  );
}

/** The sink that is furthest behind. */
function worstSink(sinks) {
  const waiting = sinks.filter(({ lagEvents, type }) => lagEvents > 0 && type !== null);
  return waiting.sort((a, b) => b.lagMs - a.lagMs)[0] ?? null;
}

function tilesOf({ journal, totals }, rates, { loss, lag, read, used, sink }) {
  const { gaps } = totals;
  return [
    {
      key: "rate",
      name: "New events",
      figure: `${brief(rates.now)}/s`,
      hint:
        rates.history > 0
          ? `and ${brief(rates.history)}/s of history`
          : `peak of the last hour: ${brief(rates.peak)}/s`,
      meaning: "Events that were read as they happened, in the last 30 seconds. History is counted apart.",
    },
    {
      key: "lag",
      name: "Reading is behind by",
      figure: lag === null ? "–" : duration(lag),
      hint: "the slowest organization",
      meaning: "How far the slowest organization's reading is behind the service's clock.",
    },
    {
      key: "sink",
      name: "Delivery is behind by",
      figure: sink === null ? "nothing" : duration(sink.lagMs),
      hint: sink === null ? "every sink has everything" : `${sink.name}, ${waiting(sink)}`,
      meaning: "The age of the oldest event that waits for a sink, for the sink that is furthest behind.",
    },
    {
      key: "complete",
      name: "Read of the time wanted",
      figure: read === null ? "–" : percent(read.share),
      hint: lostHint(gaps, read),
      meaning:
        "How much of the time that is to be read, from `since` up to now, has been read, over all organizations.",
    },
    {
      key: "held",
      name: "Matches the service",
      figure: `${brief(totals.heldCount)} of ${brief(totals.apiCount)}`,
      hint:
        totals.differing === 0
          ? "every count matches"
          : `${plural(totals.differing, "time range")} ${totals.differing === 1 ? "differs" : "differ"}`,
      meaning: "Events held here, of the events that the service counted when it was last asked.",
    },
    {
      key: "journal",
      name: "Disk used",
      figure: bytes(journal.usedBytes),
      hint:
        journal.heldUpBy === null
          ? `${percent(used)} of the budget; all is delivered`
          : `${brief(journal.backlogEvents)} ${journal.backlogEvents === 1 ? "event waits" : "events wait"} for ${journal.heldUpBy}`,
      meaning: "The state file. Reading waits when it reaches journal.budget.",
    },
    {
      key: "loss",
      name: "Unread events expire in",
      figure: loss === null ? "no unread events" : duration(loss),
      hint:
        loss === null
          ? "nothing can be lost"
          : `${plural(totals.windows.unread + totals.windows.refused, "time range")} still to read`,
      meaning: "When the service deletes the oldest events that have not been read yet.",
    },
  ];
}

function lostHint(gaps, read) {
  if (gaps.gaps > 0)
    return `lost: ${duration(gaps.durationMs)} of ${plural(gaps.organizations, "organization")}`;
  return read === null || read.gap === 0
    ? "nothing lost"
    : `lost: ${brief(read.gap)} days of one organization`;
}

const SINK_BEHIND_MS = 300_000;

function isBad(key, { loss, used, read, sink }, differing) {
  if (key === "loss") return loss !== null && loss < 48 * 3_600_000;
  if (key === "sink") return sink !== null && sink.lagMs > SINK_BEHIND_MS;
  if (key === "journal") return used > 0.8;
  if (key === "complete") return read !== null && read.gap > 0;
  return key === "held" && differing > 0;
}

/** How much of the time that is to be read has been read. */
export function completeness(days) {
  let [read, all, gap] = [0, 0, 0];
  for (const day of days) {
    const done = day.sealed + day.read + day.live;
    read += done;
    gap += day.expired;
    all += done + day.unread + day.refused + day.expired;
  }
  return { share: all === 0 ? 1 : read / all, gap };
}

const known = (list) => list.filter((value) => value !== null);
const minimum = (list) => (known(list).length === 0 ? null : Math.min(...known(list)));
const maximum = (list) => (known(list).length === 0 ? null : Math.max(...known(list)));

/** @param {"live" | "lost" | "refused" | "stopped" | "connecting"} state */
export function showLink(state, seenMs) {
  const words = {
    live: "Live",
    connecting: "Connecting",
    lost: "Connection lost",
    stopped: "Tidemark has stopped",
    refused: "A token is needed",
  };
  byId("link").dataset.state = state;
  document.body.dataset.link = state;
  say(byId("link"), words[state]);
  if (state === "live" || state === "connecting") return;
  // Old figures must not pass for the present state.
  document.title = `⚠ ${words[state]} · Tidemark`;
  say(byId("headline"), `${words[state]}.`);
  say(byId("subline"), seenMs === null ? "" : `The figures below are from ${clockTime(seenMs)}.`);
}
