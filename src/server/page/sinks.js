import { send } from "./api.js";
import { byId, h, keep, say } from "./dom.js";
import { ago, brief, duration, number, waiting } from "./format.js";

/** States with a problem, the worst first; all others follow in the order of the config. */
const TROUBLE = ["stopped", "paused", "retrying"];
const GUARANTEES = { exactly_once: "exactly once", at_least_once: "at least once" };

export function showSinks(sinks, nowMs, act) {
  const fine = sinks.filter(({ state }) => state === "running").length;
  say(byId("sinks-count"), `${number(fine)} of ${number(sinks.length)} running`);
  keep(
    byId("sinks"),
    sinks.toSorted((a, b) => rankOf(a) - rankOf(b)),
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
          h("button", { class: "quiet", onclick: () => retry(name, act) }, "Try now"),
        ),
      ),
    (element, sink) => updateSink(element, sink, nowMs),
  );
}

function rankOf({ state }) {
  const rank = TROUBLE.indexOf(state);
  return rank === -1 ? TROUBLE.length : rank;
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
    ["Waiting", waiting(sink)],
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

async function retry(name, act) {
  await act(async () => {
    await send("POST", `/api/sinks/${encodeURIComponent(name)}/retry`);
    return `${name} is tried now.`;
  });
}
