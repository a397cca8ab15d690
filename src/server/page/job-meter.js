import { h } from "./dom.js";

export const OUTCOMES = ["created", "updated", "reactivated", "failed", "skipped", "pending"];

export function createMeter() {
  const parts = OUTCOMES.map((outcome) => h("i", { class: outcome }));
  return h("div", { class: "meter", "aria-hidden": "true" }, ...parts);
}

/** The share of each outcome among the users. */
export function updateMeter(meter, { counts }) {
  const users = OUTCOMES.reduce((sum, outcome) => sum + counts[outcome], 0);
  for (const [at, outcome] of OUTCOMES.entries())
    meter.children[at].style.setProperty("--share", String(users === 0 ? 0 : counts[outcome] / users));
}
