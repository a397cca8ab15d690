import { byId, h, keep, say } from "./dom.js";
import { number, plural } from "./format.js";

const DELAYS = [
  [10_000, "10 s"],
  [60_000, "1 min"],
  [300_000, "5 min"],
  [900_000, "15 min"],
  [3_600_000, "1 h"],
  [21_600_000, "6 h"],
  [86_400_000, "1 d"],
  [604_800_000, "7 d"],
  [Number.POSITIVE_INFINITY, "more"],
];

export function showLateness({ lateness, totals }) {
  const counts = DELAYS.map(([limit, label], at) => {
    const above = at === 0 ? 0 : DELAYS[at - 1][0];
    const events = lateness
      .filter(({ atMostMs }) => atMostMs > above && atMostMs <= limit)
      .reduce((sum, bucket) => sum + bucket.events, 0);
    return { label: at === DELAYS.length - 1 ? label : `up to ${label}`, events };
  });
  const most = Math.max(1, ...counts.map(({ events }) => events));
  const any = counts.some(({ events }) => events > 0);
  say(byId("late-count"), `${plural(totals.late, "late event")}`);
  say(byId("late-note"), any ? "" : "No event has appeared in the service after its time range was read.");
  keep(
    byId("late"),
    any ? counts : [],
    ({ label }) => label,
    () => h("li", {}, h("span"), h("i", {}), h("b")),
    (element, { label, events }) => {
      const [name, bar, value] = element.children;
      say(name, label);
      bar.style.setProperty("--share", String(events / most));
      say(value, number(events));
    },
  );
}
