import { showAccounts } from "./accounts.js";
import { follow, get, Refusal } from "./api.js";
import { refreshArchives } from "./archives.js";
import { createCalendar, showCalendarLegend } from "./calendar.js";
import { createChart, createRates } from "./chart.js";
import { createLetters } from "./dead-letters.js";
import { showOrganization } from "./detail.js";
import { byId, note, say, set } from "./dom.js";
import { refreshDrift } from "./drift.js";
import { refreshJobs } from "./jobs.js";
import { showLateness } from "./lateness.js";
import { createOrganizations } from "./organizations.js";
import { refreshPeers } from "./peers.js";
import { createRecent } from "./recent.js";
import { showSinks } from "./sinks.js";
import { showLink, showSummary } from "./summary.js";

const LISTS_MS = 5000;
const CALENDAR_MS = 5000;
const SAID_MS = 6000;

const seen = { status: null, sinks: [], calendar: null, organizations: null, ms: null };
/** Ages are computed from the server's clock, not from this machine's. */
let aheadMs = 0;
const now = () => Date.now() + aheadMs;
const rates = createRates();
const chart = createChart(rates);
const recent = createRecent();
const calendar = createCalendar(byId("calendar"), byId("calendar-detail"), { unit: "organizations" });
const letters = createLetters(act, now);
const organizations = createOrganizations(
  (row) => act(() => showOrganization(row, now())),
  (view) => {
    seen.organizations = view;
  },
);
let jobsExist = true;
let peersExist = true;
let link = "connecting";

/** Carries out what a person asked for, and shows the result. */
async function act(work) {
  try {
    const words = await work();
    if (typeof words === "string") announce(words);
  } catch (error) {
    announce(error instanceof Refusal ? error.message : "The server cannot be reached.");
  }
}

let saying = 0;
function announce(words) {
  say(byId("said"), words);
  clearTimeout(saying);
  saying = setTimeout(() => say(byId("said"), ""), SAID_MS);
}

function show() {
  if (seen.status === null || link !== "live") return;
  const summary = rates.summary();
  showSummary({ ...seen, rates: summary });
  showSinks(seen.sinks, seen.status.nowMs, act);
  showAccounts(seen.status);
  showLateness(seen.status);
  recent.rate(summary.now);
  chart.draw();
}

async function refreshLists() {
  await organizations.refresh(now());
  await letters.refresh();
  await refreshDrift(now());
  await refreshArchives(now());
  if (jobsExist) jobsExist = await refreshJobs(now());
  show();
}

async function refreshCalendar() {
  seen.calendar = await get("/api/calendar");
  calendar.show(seen.calendar, now());
  show();
}

/** Repeats with a pause after each run; a failure shows in the state of the live stream. */
function repeat(work, ms) {
  const turn = () => {
    const done = document.hidden ? Promise.resolve() : work().catch(() => {});
    done.then(() => setTimeout(turn, ms));
  };
  turn();
}

async function refreshShards() {
  if (peersExist) peersExist = await refreshPeers(now());
}

/** The lists start once the server's clock is known. */
function begin() {
  repeat(refreshLists, LISTS_MS);
  repeat(refreshCalendar, CALENDAR_MS);
  repeat(refreshShards, LISTS_MS);
}

// These lists scroll, so the keyboard has to reach them.
for (const id of ["letters", "jobs", "drift", "peers"]) set(byId(id), { tabindex: "0" });
showCalendarLegend(byId("calendar-legend"));
showLink("connecting", null);
follow(
  {
    status(status) {
      aheadMs = status.nowMs - Date.now();
      if (seen.status === null) setTimeout(begin);
      seen.status = status;
      seen.ms = status.nowMs;
    },
    sinks(view) {
      seen.sinks = view.sinks;
      note(byId("sinks-note"), view, "");
    },
    rates(tail) {
      rates.add(tail);
      show();
    },
    recent: recent.add,
  },
  async (state) => {
    link = state === "lost" && seen.ms === null ? "connecting" : state;
    showLink(link, seen.ms);
    if (state !== "live") return;
    // The rates of the time without a connection.
    rates.add(await get("/api/rates"));
    show();
  },
);
