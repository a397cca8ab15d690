/** A point in time at full precision: whole milliseconds since 1970, and the nanoseconds within. */
export interface Instant {
  readonly ms: number;
  readonly ns: number;
}

const pattern = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)$/;

/** RFC 3339 at nanosecond precision, or null for anything else (a trailing newline included). */
export function parseTimestamp(text: string): Instant | null {
  const match = pattern.exec(text);
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

function offsetMs(zone: string): number {
  if (zone === "Z" || zone === "z") return 0;
  const minutes = Number(zone.slice(1, 3)) * 60 + Number(zone.slice(4, 6));
  return (zone[0] === "-" ? -minutes : minutes) * 60_000;
}

export function compareInstants(a: Instant, b: Instant): number {
  return a.ms - b.ms || a.ns - b.ns;
}

export type FractionDigits = 0 | 3 | 8 | 9;

const two = Array.from({ length: 100 }, (_, n) => String(n).padStart(2, "0"));
const three = Array.from({ length: 1000 }, (_, n) => String(n).padStart(3, "0"));

/** Writes an instant with that many fractional digits; it remembers the day, since events come in order. */
export function createTimestampWriter(): (ms: number, ns: number, digits: FractionDigits) => string {
  let day = Number.NaN;
  let dayText = "";
  return (ms, ns, digits) => {
    const dayNow = Math.floor(ms / 86_400_000);
    if (dayNow !== day) {
      day = dayNow;
      dayText = new Date(dayNow * 86_400_000).toISOString().slice(0, 11);
    }
    const rest = ms - dayNow * 86_400_000;
    const seconds = Math.floor(rest / 1000);
    const clock = `${dayText}${two[Math.floor(seconds / 3600)]}:${two[Math.floor(seconds / 60) % 60]}:${two[seconds % 60]}`;
    if (digits === 0) return `${clock}Z`;
    const millis = three[rest % 1000]!;
    if (digits === 3) return `${clock}.${millis}Z`;
    const nanos = three[Math.floor(ns / 1000)]! + three[ns % 1000]!;
    return `${clock}.${millis}${digits === 9 ? nanos : nanos.slice(0, 5)}Z`;
  };
}
