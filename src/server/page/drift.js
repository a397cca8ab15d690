import { get } from "./api.js";
import { byId, h, keep, say } from "./dom.js";
import { ago, number, plural } from "./format.js";

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
