import { get, send } from "./api.js";
import { openDialog } from "./detail.js";
import { byId, h, keep, note, say } from "./dom.js";
import { ago, bytes, number, plural } from "./format.js";

const LETTERS_SHOWN = 30;

/** Dead letters in groups of one sink and one reason; a group or a single event can be replayed or deleted. */
export function createLetters(act, now) {
  async function refresh() {
    const nowMs = now();
    const view = await get("/api/dead-letters?limit=1");
    const { total, groups } = view;
    say(byId("letters-count"), total === 0 && view.incomplete === undefined ? "none" : number(total));
    note(byId("letters-note"), view, total === 0 ? "No sink has refused an event." : "");
    keep(
      byId("letters"),
      groups,
      ({ id }) => id,
      makeGroup,
      (element, group) => {
        say(element.querySelector("b"), `${group.sink} refused ${plural(group.count, "event")}`);
        const [, reason, answer] = element.children;
        say(reason, `${group.reason} · last ${ago(group.lastMs, nowMs)}`);
        say(answer, group.example.answer ?? "");
        answer.hidden = group.example.answer === null;
      },
    );
  }

  function makeGroup({ id, sink }) {
    const button = (label, title, run) =>
      h("button", { class: "quiet", "aria-label": `${title} ${id} of ${sink}`, onclick: run }, label);
    return h(
      "li",
      { class: "entry" },
      h(
        "div",
        { class: "line" },
        h("b"),
        h(
          "span",
          { class: "actions" },
          button("Show", "Show group", () => showGroup(id)),
          button("Replay all", "Replay group", () => replay({ group: id })),
          button("Delete all", "Delete group", () => confirmDrop(`group=${id}`, sink, "these events")),
        ),
      ),
      h("p", { class: "note" }),
      h("p", { class: "note answer", title: "The destination's own answer" }),
    );
  }

  async function replay(choice) {
    await act(async () => {
      const { replayed, waiting } = await send("POST", "/api/dead-letters/replay", choice);
      await refresh();
      return `${plural(replayed, "dead letter")} returned to the journal.${waitingText(waiting)}`;
    });
  }

  async function drop(query) {
    await act(async () => {
      const { dropped, waiting } = await send("DELETE", `/api/dead-letters?${query}`);
      await refresh();
      return `${plural(dropped, "dead letter")} deleted.${waitingText(waiting)}`;
    });
  }

  function confirmDrop(query, sink, what) {
    const close = () => byId("detail-dialog").close();
    const sure = h("button", { class: "danger" }, "Delete");
    sure.onclick = () => {
      close();
      drop(query);
    };
    openDialog(
      `Delete ${what}?`,
      h("p", {}, `${sink} will never receive ${what}. Other sinks are not affected.`),
      h("div", { class: "actions" }, h("button", { class: "quiet", onclick: close }, "Keep"), sure),
    );
  }

  async function showGroup(group) {
    await act(async () => {
      const view = await get(`/api/dead-letters?group=${group}&limit=${LETTERS_SHOWN}`);
      const { groups, letters, total } = view;
      if (total === 0) return view.incomplete ?? "These dead letters are gone.";
      const [{ sink, example }] = groups;
      const items = letters.map((letter) => letterItem(letter));
      openDialog(
        `${sink} refused ${plural(total, "event")}`,
        h("p", {}, example.reason),
        example.answer === null
          ? null
          : h("pre", { tabindex: "0", "aria-label": "The destination's answer" }, example.answer),
        h("ul", { class: "list" }, items),
        total > letters.length &&
          h("p", { class: "note" }, `${number(total - letters.length)} older ones are not shown.`),
      );
      return undefined;
    });
  }

  function letterItem(letter) {
    const name = [letter.service, letter.eventType].filter(Boolean).join(" / ") || "event";
    const button = (label, title, run) =>
      h("button", { class: "quiet", "aria-label": `${title} dead letter ${letter.id}`, onclick: run }, label);
    const closeThen = (work) => () => {
      byId("detail-dialog").close();
      work();
    };
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
          button("Show", "Show", () => showLetter(letter.id)),
          button(
            "Replay",
            "Replay",
            closeThen(() => replay({ ids: [letter.id] })),
          ),
          button("Delete", "Delete", () => confirmDrop(`ids=${letter.id}`, letter.sink, "this event")),
        ),
      ),
      h("p", { class: "note" }, `${letter.timestamp} · organization ${letter.organization ?? "none"}`),
    );
  }

  async function showLetter(id) {
    await act(async () => {
      const letter = await get(`/api/dead-letters/${id}`);
      openDialog(
        `Dead letter ${letter.id}`,
        h("p", {}, letter.reason),
        letter.answer === null
          ? null
          : h("p", { class: "note" }, `The destination answered: ${letter.answer}`),
        h(
          "p",
          { class: "note" },
          `${letter.sink} · ${letter.timestamp} · ${bytes(letter.bytes)} · organization ${letter.organization ?? "none"}`,
        ),
        h("pre", { tabindex: "0", "aria-label": "The event as the service sent it" }, pretty(letter.body)),
      );
    });
  }

  return { refresh };
}

function waitingText(waiting) {
  return waiting === 0 ? "" : ` ${number(waiting)} must wait: their batch is not delivered yet.`;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
