import { byId, fill, h, keep, say } from "./dom.js";
import { brief, bytes, clockTime, duration, number, percent, plural } from "./format.js";

/** The answer to the one question, then the alarms, then six figures. */
export function showSummary({ status, sinks, rates, calendar, organizations }) {
  const nowMs = status.nowMs;
  document.body.dataset.health = status.health;
  say(byId("headline"), headline(status, sinks));
  say(byId("subline"), subline(status, organizations));
  const uptime = status.startedMs === null ? "not running" : `up ${duration(nowMs - status.startedMs)}`;
  say(byId("version"), `${status.version} · ${uptime}`);
  showAlarms(status.alarms, nowMs);
  showTiles(status, rates, calendar, organizations);
}

const TROUBLED = new Set(["retrying", "paused", "stopped"]);

function headline(status, sinks) {
  const critical = status.alarms.filter(({ severity }) => severity === "critical").length;
  if (critical > 0) return critical === 1 ? "One thing needs you." : `${number(critical)} things need you.`;
  const waiting = sinks.filter(({ state }) => TROUBLED.has(state));
  if (status.alarms.length > 0 || waiting.length > 0) return "Events are arriving, with a word of warning.";
  if (status.totals.windows.unread > 0) return "Events are arriving; history is still being read.";
  return "Everything is arriving, everywhere.";
}

function subline({ totals, accounts }, organizations) {
  const worst = organizations?.worstLagMs ?? maximum(accounts.map(({ liveLagMs }) => liveLagMs));
  const parts = [plural(totals.organizations, "organization")];
  if (worst !== null) parts.push(`the slowest ${duration(worst)} behind`);
  parts.push(`${plural(totals.events, "event")} kept`);
  return `${parts.join(", ")}.`;
}

function showAlarms(alarms, nowMs) {
  keep(
    byId("alarms"),
    alarms,
    ({ kind, subject }) => `${kind} ${subject}`,
    ({ severity }) => h("li", { class: `alarm ${severity}` }, h("h3"), h("p"), h("p", { class: "remedy" })),
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

function showTiles(status, rates, calendar, organizations) {
  const { journal, totals, accounts } = status;
  const loss = minimum(accounts.map(({ lossInMs }) => lossInMs));
  const worst = organizations?.worstLagMs ?? maximum(accounts.map(({ liveLagMs }) => liveLagMs));
  const read = calendar === null ? null : completeness(calendar.days);
  const used = journal.budgetBytes === null ? 0 : journal.usedBytes / journal.budgetBytes;
  const unread = totals.windows.unread + totals.windows.refused;
  const tiles = [
    ["rate", "Arriving", `${brief(rates.now)}/s`, `${brief(rates.peak)}/s at most in the last hour`],
    ["lag", "Furthest behind", worst === null ? "–" : duration(worst), "behind the service's clock"],
    [
      "complete",
      "Read, of 90 days",
      read === null ? "–" : percent(read.share),
      read === null || read.gap === 0
        ? "no gap"
        : `lost: ${brief(read.gap)} ${read.gap === 1 ? "day" : "days"} of one organization`,
    ],
    [
      "held",
      "Held, of what was told",
      `${brief(totals.heldCount)} of ${brief(totals.apiCount)}`,
      totals.differing === 0
        ? "every window agrees"
        : `${plural(totals.differing, "window")} ${totals.differing === 1 ? "differs" : "differ"}`,
    ],
    [
      "journal",
      "Journal",
      bytes(journal.usedBytes),
      journal.heldUpBy === null
        ? `${percent(used)} of its budget; all is delivered`
        : `${brief(journal.backlogEvents)} ${journal.backlogEvents === 1 ? "event waits" : "events wait"} for ${journal.heldUpBy}`,
    ],
    [
      "loss",
      "Until loss",
      loss === null ? "none" : duration(loss),
      loss === null ? "nothing unread can be forgotten" : `${plural(unread, "window")} still to read`,
    ],
  ];
  keep(
    byId("tiles"),
    tiles,
    ([key]) => key,
    () => h("div", { class: "tile" }, h("dt"), h("dd", { class: "figure" }), h("dd", { class: "hint" })),
    (element, [key, name, figure, hint]) => {
      element.id = `tile-${key}`;
      element.classList.toggle("bad", isBad(key, { loss, used, read, differing: totals.differing }));
      const [title, value, text] = element.children;
      say(title, name);
      say(value, figure);
      say(text, hint);
    },
  );
}

function isBad(key, { loss, used, read, differing }) {
  if (key === "loss") return loss !== null && loss < 48 * 3_600_000;
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

/** @param {"live" | "lost" | "refused"} state */
export function showLink(state, seenMs) {
  const words = {
    live: "Live",
    lost: seenMs === null ? "Connecting" : `Connection lost; as of ${clockTime(seenMs)}`,
    refused: "No token, no figures",
  };
  byId("link").dataset.state = state;
  say(byId("link"), words[state]);
}

export function showAccounts({ accounts, nowMs }) {
  say(byId("accounts-count"), plural(accounts.length, "account"));
  keep(
    byId("accounts"),
    accounts,
    ({ name }) => name,
    () => h("li", { class: "entry" }, h("div", { class: "line" }), h("p", { class: "note" })),
    (element, account) => {
      const [line, note] = element.children;
      const state =
        account.state === "paused" ? "paused" : account.state === "reading" ? "running" : "unknown";
      fill(line, h("b", {}, account.name), h("span", { class: "chip", "data-state": state }, account.state));
      say(note, accountWords(account, nowMs));
    },
  );
}

function accountWords({ organizations, pace, clockOffsetMs, pausedUntilMs }, nowMs) {
  const parts = [`${plural(organizations.active, "organization")} read`];
  if (organizations.refused > 0) parts.push(`${number(organizations.refused)} refused`);
  if (organizations.vanished > 0) parts.push(`${number(organizations.vanished)} vanished`);
  if (pace !== null) {
    const limit =
      pace.requestsPerSecondMax === null ? "no limit met" : `${brief(pace.requestsPerSecondMax)}/s`;
    parts.push(`${plural(pace.requests, "request")} (${number(pace.refused)} slowed down, ${limit})`);
  }
  if (clockOffsetMs !== null && Math.abs(clockOffsetMs) >= 1500)
    parts.push(`our clock is ${duration(Math.abs(clockOffsetMs))} ${clockOffsetMs > 0 ? "slow" : "fast"}`);
  if (pausedUntilMs !== null && pausedUntilMs > nowMs)
    parts.push(`tried again in ${duration(pausedUntilMs - nowMs)}`);
  return `${parts.join(" · ")}.`;
}

const DELAYS = [
  [10_000, "10 s"],
  [60_000, "1 min"],
  [300_000, "5 min"],
  [900_000, "15 min"],
  [3_600_000, "1 h"],
  [21_600_000, "6 h"],
  [86_400_000, "1 d"],
  [604_800_000, "7 d"],
  [Number.POSITIVE_INFINITY, "more"],
];

export function showLateness({ lateness, totals }) {
  const counts = DELAYS.map(([limit, label], at) => {
    const above = at === 0 ? 0 : DELAYS[at - 1][0];
    const events = lateness
      .filter(({ atMostMs }) => atMostMs > above && atMostMs <= limit)
      .reduce((sum, bucket) => sum + bucket.events, 0);
    return { label: at === DELAYS.length - 1 ? label : `up to ${label}`, events };
  });
  const most = Math.max(1, ...counts.map(({ events }) => events));
  const any = counts.some(({ events }) => events > 0);
  say(byId("late-count"), `${plural(totals.late, "event")} after their time was read`);
  say(byId("late-note"), any ? "" : "No event has come after its time had been read.");
  keep(
    byId("late"),
    any ? counts : [],
    ({ label }) => label,
    () => h("li", {}, h("span"), h("i", {}), h("b")),
    (element, { label, events }) => {
      const [name, bar, value] = element.children;
      say(name, label);
      bar.style.setProperty("--share", String(events / most));
      say(value, number(events));
    },
  );
}
