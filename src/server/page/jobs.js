import { get } from "./api.js";
import { byId, fill, h, keep, say } from "./dom.js";
import { ago, number } from "./format.js";

const OUTCOMES = ["created", "updated", "reactivated", "failed", "pending"];

/** Import jobs, where this process has any to tell of. */
export async function refreshJobs(nowMs) {
  let jobs;
  try {
    ({ jobs } = await get("/api/imports?limit=8"));
  } catch (error) {
    if (error.status === 404) return false;
    throw error;
  }
  byId("jobs-panel").hidden = false;
  const open = jobs.filter(({ endedAt }) => endedAt === null).length;
  say(byId("jobs-count"), open === 0 ? "none under way" : `${number(open)} under way`);
  say(byId("jobs-note"), jobs.length === 0 ? "No import has been started or seen." : "");
  keep(
    byId("jobs"),
    jobs,
    ({ id }) => String(id),
    () =>
      h(
        "li",
        { class: "entry" },
        h("div", { class: "line" }),
        h(
          "div",
          { class: "meter", "aria-hidden": "true" },
          ...OUTCOMES.map((outcome) => h("i", { class: outcome })),
        ),
        h("p", { class: "note" }),
      ),
    (element, job) => updateJob(element, job, nowMs),
  );
  return true;
}

function updateJob(element, job, nowMs) {
  const [line, meter, note] = element.children;
  fill(
    line,
    h("b", {}, job.import ?? job.source ?? `job ${job.id}`),
    h("span", { class: "kind" }, `#${job.id} ${job.origin}`),
    h("span", { class: "chip", "data-state": JOB_STATES[job.state] ?? "unknown" }, job.state),
  );
  const users = OUTCOMES.reduce((sum, outcome) => sum + job.counts[outcome], 0);
  for (const [at, outcome] of OUTCOMES.entries())
    meter.children[at].style.setProperty("--share", String(users === 0 ? 0 : job.counts[outcome] / users));
  const parts = OUTCOMES.filter((outcome) => job.counts[outcome] > 0).map(
    (outcome) => `${number(job.counts[outcome])} ${outcome}`,
  );
  const started = `started ${ago(Date.parse(job.requestedAt), nowMs)}`;
  say(note, [parts.join(", ") || "no users yet", job.reason, started].filter(Boolean).join(" · "));
}

const JOB_STATES = {
  requested: "opening",
  running: "running",
  quiet: "retrying",
  finished: "running",
  failed: "stopped",
  uncertain: "paused",
};
