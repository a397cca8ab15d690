import { follow, get, Refusal } from "./api.js";
import { createCalendar, showCalendarLegend } from "./calendar.js";
import { createChart, createRates } from "./chart.js";
import { createLetters } from "./dead-letters.js";
import { showOrganization } from "./detail.js";
import { byId, say } from "./dom.js";
import { refreshDrift } from "./drift.js";
import { refreshJobs } from "./jobs.js";
import { createOrganizations } from "./organizations.js";
import { createRecent } from "./recent.js";
import { showSinks } from "./sinks.js";
import { showAccounts, showLateness, showLink, showSummary } from "./summary.js";

const LISTS_MS = 5000;
const CALENDAR_MS = 5000;
const SAID_MS = 6000;

const seen = { status: null, sinks: [], calendar: null, organizations: null, ms: null };
/** The server's time: ages are told by its clock, whatever this machine's says. */
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

/** Does what a person asked for, and says how it went. */
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
  if (seen.status === null) return;
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
  if (jobsExist) jobsExist = await refreshJobs(now());
  show();
}

async function refreshCalendar() {
  seen.calendar = await get("/api/calendar");
  calendar.show(seen.calendar, now());
  show();
}

/** Again and again, with a pause after each; a failure shows in the live stream's own state. */
function repeat(work, ms) {
  const turn = () => {
    const done = document.hidden ? Promise.resolve() : work().catch(() => {});
    done.then(() => setTimeout(turn, ms));
  };
  turn();
}

/** The lists begin once the server's clock is known. */
function begin() {
  repeat(refreshLists, LISTS_MS);
  repeat(refreshCalendar, CALENDAR_MS);
}

showCalendarLegend(byId("calendar-legend"));
showLink("lost", null);
follow(
  {
    status(status) {
      aheadMs = status.nowMs - Date.now();
      if (seen.status === null) setTimeout(begin);
      seen.status = status;
      seen.ms = status.nowMs;
    },
    sinks({ sinks }) {
      seen.sinks = sinks;
    },
    rates(tail) {
      rates.add(tail);
      show();
    },
    recent: recent.add,
  },
  async (state) => {
    showLink(state, seen.ms);
    if (state !== "live") return;
    // What was missed while nobody was connected.
    rates.add(await get("/api/rates"));
    show();
  },
);
