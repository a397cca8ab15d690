import { get, send } from "./api.js";
import { openDialog } from "./detail.js";
import { byId, fill, h, keep, say } from "./dom.js";
import { ago, brief, bytes, duration, number, plural } from "./format.js";

const GUARANTEES = { exactly_once: "exactly once", at_least_once: "at least once" };

export function showSinks(sinks, nowMs, act) {
  const fine = sinks.filter(({ state }) => state === "running").length;
  say(byId("sinks-count"), `${number(fine)} of ${number(sinks.length)} running`);
  keep(
    byId("sinks"),
    sinks,
    ({ name }) => name,
    ({ name }) =>
      h(
        "li",
        { class: "sink" },
        h(
          "div",
          { class: "line" },
          h("h3", {}, name),
          h("span", { class: "kind" }),
          h("span", { class: "chip" }),
        ),
        h("dl", { class: "facts" }),
        h(
          "div",
          { class: "trouble" },
          h("p"),
          h("p", { class: "remedy" }),
          h("button", { class: "quiet", onclick: () => resume(name, act) }, "Try now"),
        ),
      ),
    (element, sink) => updateSink(element, sink, nowMs),
  );
}

function updateSink(element, sink, nowMs) {
  const [line, facts, trouble] = element.children;
  const [, kind, chip] = line.children;
  element.dataset.state = sink.state;
  say(kind, [sink.type ?? "not in the config", GUARANTEES[sink.guarantee]].filter(Boolean).join(", "));
  kind.title = sink.promise ?? "";
  chip.dataset.state = sink.state;
  say(chip, sink.sinceMs === null ? sink.state : `${sink.state} for ${duration(nowMs - sink.sinceMs)}`);
  const page = sink.position.split(":")[1];
  const list = [
    ["Waiting", plural(sink.lagEvents, "event")],
    ["Oldest waits", sink.lagEvents === 0 ? "nothing waits" : duration(sink.lagMs)],
    ["Sent", sink.sentEvents === null ? "–" : brief(sink.sentEvents)],
    ["Last write", sink.lastWriteMs === null ? "none yet" : ago(sink.lastWriteMs, nowMs)],
    ["Position", `page ${number(Number(page))}`],
    ["Dead letters", number(sink.deadLetters)],
  ];
  keep(
    facts,
    list,
    ([name]) => name,
    ([name]) => h("div", {}, h("dt", {}, name), h("dd")),
    (fact, [, value]) => say(fact.lastElementChild, value),
  );
  trouble.hidden = sink.reason === null;
  say(trouble.children[0], sink.reason ?? "");
  say(trouble.children[1], sink.remedy ?? "");
}

async function resume(name, act) {
  await act(async () => {
    await send("POST", `/api/sinks/${encodeURIComponent(name)}/resume`);
    return `${name} is tried now.`;
  });
}

/** Dead letters, newest first; each can be looked at, given back to its sink, or dropped. */
export function createLetters(act, now) {
  async function refresh() {
    const nowMs = now();
    const { total, letters } = await get("/api/dead-letters?limit=30");
    say(byId("letters-count"), total === 0 ? "none" : number(total));
    say(
      byId("letters-note"),
      total === 0
        ? "No sink has refused an event for good."
        : total > letters.length
          ? `${number(total - letters.length)} older ones are not shown.`
          : "",
    );
    keep(
      byId("letters"),
      letters,
      ({ id }) => String(id),
      makeLetter,
      (element, letter) =>
        say(element.children[1], `${letter.sink} · ${ago(letter.storedMs, nowMs)} · ${letter.reason}`),
    );
  }

  function makeLetter(letter) {
    const name = [letter.service, letter.eventType].filter(Boolean).join(" / ") || "event";
    const button = (label, title, run) =>
      h("button", { class: "quiet", "aria-label": `${title} ${letter.id}`, onclick: run }, label);
    return h(
      "li",
      { class: "entry" },
      h(
        "div",
        { class: "line" },
        h("b", {}, name),
        h(
          "span",
          { class: "actions" },
          button("Show", "Show dead letter", () => showLetter(letter.id)),
          button("Replay", "Replay dead letter", () => replay({ ids: [letter.id] })),
          button("Drop", "Drop dead letter", () => confirmDrop(letter)),
        ),
      ),
      h("p", { class: "note" }),
    );
  }

  async function replay(choice) {
    await act(async () => {
      const { replayed } = await send("POST", "/api/dead-letters/replay", choice);
      await refresh();
      return `${plural(replayed, "dead letter")} went back to the journal.`;
    });
  }

  async function drop(id) {
    await act(async () => {
      const { dropped } = await send("DELETE", `/api/dead-letters?ids=${id}`);
      await refresh();
      return `${plural(dropped, "dead letter")} dropped.`;
    });
  }

  function confirmDrop(letter) {
    const close = () => byId("detail-dialog").close();
    const sure = h("button", { class: "danger" }, "Drop it for good");
    sure.onclick = () => {
      close();
      drop(letter.id);
    };
    openDialog(
      "Drop this event?",
      h("p", {}, `${letter.sink} will never get it. Other sinks are not touched.`),
      h("div", { class: "actions" }, h("button", { class: "quiet", onclick: close }, "Keep it"), sure),
    );
  }

  async function showLetter(id) {
    await act(async () => {
      const letter = await get(`/api/dead-letters/${id}`);
      const all = h("button", { class: "quiet" }, `Replay all of ${letter.sink}`);
      all.onclick = () => {
        byId("detail-dialog").close();
        replay({ sink: letter.sink });
      };
      openDialog(
        `Dead letter ${letter.id}`,
        h("p", {}, letter.reason),
        h(
          "p",
          { class: "note" },
          `${letter.sink} · ${letter.timestamp} · ${bytes(letter.bytes)} · organization ${letter.organization ?? "none"}`,
        ),
        h("pre", { tabindex: "0", "aria-label": "The event, as it was served" }, pretty(letter.body)),
        h("div", { class: "actions" }, all),
      );
    });
  }

  return { refresh };
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

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

export async function refreshDrift(nowMs) {
  const { total, rows } = await get("/api/drift?limit=12");
  say(byId("drift-count"), total === 0 ? "none" : plural(total, "way", "ways"));
  say(
    byId("drift-note"),
    total === 0
      ? "Every event fits what is documented of its service."
      : "Such events are delivered all the same.",
  );
  keep(
    byId("drift"),
    rows,
    ({ service, kind, path, detail }) => `${service} ${kind} ${path} ${detail}`,
    ({ service, kind, path, detail }) =>
      h(
        "li",
        { class: "entry" },
        h(
          "div",
          { class: "line" },
          h("b", {}, path),
          h(
            "span",
            { class: "kind" },
            `${service}, ${DRIFT[kind] ?? kind}${detail === "" ? "" : `: ${detail}`}`,
          ),
          h("span", { class: "figure" }),
        ),
      ),
    (element, row) => {
      const figure = element.querySelector(".figure");
      say(figure, number(row.events));
      figure.title = `last ${ago(row.lastMs, nowMs)}`;
    },
  );
}

const DRIFT = { event_type: "new event type", field: "new field", type: "other type" };
