import { get } from "./api.js";
import { byId, h, keep, note, say } from "./dom.js";
import { ago, number } from "./format.js";

export async function refreshDrift(nowMs) {
  const view = await get("/api/drift?limit=12");
  const { total, rows } = view;
  say(byId("drift-count"), total === 0 && view.incomplete === undefined ? "none" : number(total));
  note(
    byId("drift-note"),
    view,
    total === 0
      ? "Every event matches the documentation of its service."
      : "These events are delivered like all others.",
  );
  keep(
    byId("drift"),
    rows,
    ({ kind, path, detail }) => `${kind} ${path} ${detail}`,
    ({ kind, path, detail }) =>
      h(
        "li",
        { class: "entry" },
        h(
          "div",
          { class: "line" },
          h("b", {}, path),
          h("span", { class: "kind" }, `${DRIFT[kind] ?? kind}${detail === "" ? "" : `: ${detail}`}`),
          h("span", { class: "figure" }),
        ),
      ),
    (element, row) => {
      const figure = element.querySelector(".figure");
      say(figure, number(row.events));
      figure.title = `last ${ago(row.lastMs, nowMs)}`;
      element.title = `Services: ${row.services.join(", ")}`;
    },
  );
}

const DRIFT = {
  event_type: "new event type",
  field: "new field",
  type: "other type",
  class: "new field, and the class is lost",
};
