/** A point in time at full precision: whole milliseconds since 1970, and the nanoseconds within. */
export interface Instant {
  readonly ms: number;
  readonly ns: number;
}

const PATTERN = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)$/;

/** RFC 3339 at nanosecond precision. Anything else gives null, also a trailing line break. */
export function parseTimestamp(text: string): Instant | null {
  const match = PATTERN.exec(text);
  if (match === null || text.endsWith("\n")) return null;
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  if (month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 59) return null;
  const base = Date.UTC(year, month - 1, day, hour, minute, second);
  if (new Date(base).getUTCDate() !== day) return null;
  const nanos = Number((match[7] ?? "").padEnd(9, "0"));
  return { ms: base - offsetMs(match[8]!) + Math.floor(nanos / 1_000_000), ns: nanos % 1_000_000 };
}

export function compareInstants(a: Instant, b: Instant): number {
  return a.ms - b.ms || a.ns - b.ns;
}

function offsetMs(zone: string): number {
  if (zone === "Z" || zone === "z") return 0;
  const minutes = Number(zone.slice(1, 3)) * 60 + Number(zone.slice(4, 6));
  return (zone[0] === "-" ? -minutes : minutes) * 60_000;
}
