import { get } from "./api.js";
import { byId, fill, h, keep, note, say } from "./dom.js";
import { ago, dateTime, number } from "./format.js";
import { refreshJobDetail, showJob } from "./job-detail.js";
import { createMeter, updateMeter } from "./job-meter.js";

/** Import jobs and scheduled runs, where this process has any. */
export async function refreshJobs(nowMs) {
  let view;
  let imports;
  try {
    [view, { imports }] = await Promise.all([get("/api/imports?limit=8"), get("/api/imports/definitions")]);
  } catch (error) {
    if (error.status === 404) return false;
    throw error;
  }
  const { jobs } = view;
  byId("jobs-panel").hidden = false;
  const open = jobs.filter(({ endedAt }) => endedAt === null).length;
  const none = open === 0 && view.incomplete === undefined;
  say(byId("jobs-count"), none ? "none under way" : `${number(open)} under way`);
  note(byId("jobs-note"), view, jobs.length === 0 ? "No import has been started or seen." : "");
  keep(
    byId("schedules"),
    imports,
    ({ name }) => name,
    createSchedule,
    (element, one) => updateSchedule(element, one, nowMs),
  );
  keep(
    byId("jobs"),
    jobs,
    ({ id }) => String(id),
    createJob,
    (element, job) => updateJob(element, job, nowMs),
  );
  await refreshJobDetail(nowMs);
  return true;
}

function createSchedule() {
  return h("li", { class: "entry" }, h("div", { class: "line" }), h("p", { class: "note" }));
}

/** An import of the config: its last run, whatever became of it, and its next one. */
function updateSchedule(element, { name, schedule, timeZone, nextRunAt, lastRun }, nowMs) {
  const [line, note] = element.children;
  const went = lastRun === null ? null : (RUN_WORDS[lastRun.outcome] ?? lastRun.outcome);
  fill(
    line,
    h("b", {}, name),
    h("span", { class: "kind" }, schedule === null ? "by hand" : `${schedule} ${timeZone}`),
    lastRun !== null &&
      h("span", { class: "chip", "data-state": RUN_STATES[lastRun.outcome] }, `last run ${went}`),
  );
  const last =
    lastRun === null
      ? "no scheduled run yet"
      : `last ${lastRun.local.replace("T", " ")}${lastRun.reason === null ? "" : `: ${lastRun.reason}`}`;
  const next = nextRunAt === null ? "no next run" : `next ${dateTime(Date.parse(nextRunAt))} UTC`;
  say(
    note,
    [next, nextRunAt !== null && until(Date.parse(nextRunAt), nowMs), last].filter(Boolean).join(" · "),
  );
}

function until(ms, nowMs) {
  const minutes = Math.max(0, Math.round((ms - nowMs) / 60_000));
  return minutes < 120 ? `in ${minutes} min` : `in ${Math.round(minutes / 60)} h`;
}

function createJob() {
  return h(
    "li",
    { class: "entry" },
    h("div", { class: "line" }),
    createMeter(),
    h("p", { class: "note" }),
    h("div", { class: "actions" }, h("button", { type: "button", class: "quiet" }, "Details")),
  );
}

function updateJob(element, job, nowMs) {
  const [line, meter, note] = element.children;
  fill(
    line,
    h("b", {}, job.import ?? job.source ?? `job ${job.id}`),
    h("span", { class: "kind" }, `#${job.id} ${job.origin}`),
    h("span", { class: "chip", "data-state": JOB_STATES[job.state] ?? "unknown" }, job.state),
  );
  updateMeter(meter, job);
  const started = `started ${ago(Date.parse(job.requestedAt), nowMs)}`;
  say(note, [job.summary, job.reason, started].filter(Boolean).join(" · "));
  const button = element.querySelector("button");
  button.setAttribute("aria-label", `Details of job ${job.id}`);
  button.onclick = () => showJob(job.id, nowMs);
}

const JOB_STATES = {
  requested: "opening",
  running: "running",
  quiet: "retrying",
  finished: "running",
  failed: "stopped",
  uncertain: "paused",
  ended: "paused",
};

const RUN_WORDS = { started: "started", refused: "refused", missed: "missed", overlapped: "left out" };
const RUN_STATES = { started: "running", refused: "stopped", missed: "paused", overlapped: "retrying" };
