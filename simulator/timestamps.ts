export type FractionDigits = 0 | 3 | 8 | 9;

const two = Array.from({ length: 100 }, (_, n) => String(n).padStart(2, "0"));
const three = Array.from({ length: 1000 }, (_, n) => String(n).padStart(3, "0"));

/** Writes an instant with that many fractional digits. It remembers the day's text, since events come in order. */
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
