const NUMBER = new Intl.NumberFormat("en");
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1000],
];

/** @param {number} value */
export const number = (value) => NUMBER.format(value);

/** Large numbers shortened, small ones with what matters. */
export function brief(value) {
  if (value >= 10_000) return SHORT.format(value);
  if (value >= 100 || Number.isInteger(value)) return NUMBER.format(Math.round(value));
  return value >= 10 ? value.toFixed(1) : value.toFixed(value >= 0.095 ? 1 : 2).replace(/^0\.00$/, "0");
}

/** A duration in its two largest units: `3 d 4 h`, `12 min`, `8 s`. */
export function duration(ms, units = 2) {
  if (ms < 1000) return ms <= 0 ? "0 s" : "under 1 s";
  const at = UNITS.findIndex(([, size]) => ms >= size);
  const [unit, size] = UNITS[at];
  const first = Math.floor(ms / size);
  const next = UNITS[at + 1];
  const second = units === 1 || next === undefined || first >= 10 ? 0 : Math.floor((ms % size) / next[1]);
  return second > 0 ? `${first} ${unit} ${second} ${next[0]}` : `${first} ${unit}`;
}

export function ago(ms, nowMs) {
  if (ms === null) return "never";
  const pastMs = nowMs - ms;
  return pastMs < 2000 ? "now" : `${duration(pastMs, 1)} ago`;
}

export function bytes(value) {
  const steps = ["B", "KB", "MB", "GB", "TB"];
  let at = 0;
  let left = value;
  while (left >= 1000 && at < steps.length - 1) {
    left /= 1000;
    at++;
  }
  return `${left >= 100 || at === 0 ? Math.round(left) : left.toFixed(1)} ${steps[at]}`;
}

export const clockTime = (ms) => new Date(ms).toLocaleTimeString("en-GB");
export const dateTime = (ms) => new Date(ms).toISOString().slice(0, 16).replace("T", " ");
/** @param {string} day */
export const dayName = (day) =>
  new Date(`${day}T00:00:00Z`).toLocaleDateString("en-GB", {
    weekday: "short",
    day: "numeric",
    month: "long",
    timeZone: "UTC",
  });

/** The events that wait for a sink. They are counted before its filter. */
export function waiting({ lagEvents, isFiltered }) {
  const events = plural(lagEvents, "event");
  return isFiltered && lagEvents > 0 ? `up to ${events}, before its filter` : events;
}

export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

/** A share as a percentage that never says 100 for less than all. */
export function percent(share) {
  if (share >= 1) return "100 %";
  const shown = Math.floor(share * 1000) / 10;
  return `${share > 0.99 ? Math.floor(share * 10_000) / 100 : shown} %`;
}
