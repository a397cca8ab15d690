export const DAY_MS = 86_400_000;

/**
 * Milliseconds since the epoch of an RFC 3339 timestamp, truncated to whole milliseconds. Undefined when the
 * text is not a timestamp. Fractions may have any number of digits.
 */
export function timestampMsOf(text: string): number | undefined {
  const match =
    /^(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):?(\d\d))$/.exec(text);
  if (!match) return undefined;
  const [
    ,
    year,
    month,
    day,
    hour,
    minute,
    second,
    fraction = "",
    sign,
    offsetHours = "0",
    offsetMinutes = "0",
  ] = match;
  if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 60) return undefined;
  if (Number(offsetHours) > 23 || Number(offsetMinutes) > 59) return undefined;
  // Date.UTC would read the years 0 to 99 as 1900 to 1999.
  const date = new Date(0);
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day));
  // A day that does not exist would roll over into the next month.
  if (date.getUTCMonth() !== Number(month) - 1 || date.getUTCDate() !== Number(day)) return undefined;
  const inDayMs = ((Number(hour) * 60 + Number(minute)) * 60 + Number(second)) * 1000;
  const offsetMs = (Number(offsetHours) * 60 + Number(offsetMinutes)) * 60_000 * (sign === "-" ? -1 : 1);
  return date.getTime() + inDayMs + Number(`${fraction}000`.slice(0, 3)) - offsetMs;
}

/** Numbers from here on are milliseconds since the epoch, below it seconds: 1973 in one, the year 5138 in the other. */
const MILLISECONDS_MIN = 100_000_000_000;
const NUMBER_MS_MAX = 100_000_000_000_000;

/** Milliseconds of a timestamp that is a number of seconds or milliseconds since the epoch; undefined for others. */
export function numberMsOf(text: string): number | undefined {
  if (!/^\d{9,17}(?:\.\d+)?$/.test(text)) return undefined;
  const value = Number(text);
  const ms = Math.trunc(value >= MILLISECONDS_MIN ? value : value * 1000);
  return ms < NUMBER_MS_MAX ? ms : undefined;
}

const UNITS_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

/** Whole milliseconds of a duration such as `90d`, `10m`, `1h30m`; undefined when the text is not a duration. */
export function durationMsOf(text: string): number | undefined {
  if (!/^(\d+(?:\.\d+)?(?:ms|[smhdw]))+$/.test(text)) return undefined;
  let total = 0;
  for (const [, amount, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|[smhdw])/g))
    total += Number(amount) * UNITS_MS[unit!]!;
  return Number.isSafeInteger(Math.round(total)) ? Math.round(total) : undefined;
}

/** A duration in words that a person reads at a glance: `3d 4h`, `12m`, `8s`. */
export function formatDuration(ms: number): string {
  if (Math.round(ms) < 1000) return `${Math.round(ms)}ms`;
  const seconds = Math.floor(Math.round(ms) / 1000);
  const parts: [number, string][] = [
    [Math.floor(seconds / 86_400), "d"],
    [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "m"],
    [seconds % 60, "s"],
  ];
  const first = parts.findIndex(([amount]) => amount > 0);
  return parts
    .slice(first, first + 2)
    .filter(([amount]) => amount > 0)
    .map(([amount, unit]) => amount + unit)
    .join(" ");
}

/** The whole second at or before a time. */
export function wholeSecondBefore(ms: number): number {
  return Math.floor(ms / 1000) * 1000;
}

/** The whole second at or after a time. */
export function wholeSecondAfter(ms: number): number {
  return Math.ceil(ms / 1000) * 1000;
}
