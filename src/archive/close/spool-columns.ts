import type { JournalEvent } from "../../core/event.ts";

const IDENTITY_BYTES = 16;

/** The event's bytes and, behind them, its timestamp. */
export interface SpooledPlace {
  readonly offset: number;
  readonly length: number;
  readonly timestampLength: number;
}

/** The part of each spooled event that stays in memory, in columns that grow together. */
export function createColumns() {
  let capacity = 4096;
  let count = 0;
  let groups = new Uint32Array(capacity);
  let times = new Float64Array(capacity);
  let nanoseconds = new Uint32Array(capacity);
  let identities = Buffer.alloc(capacity * IDENTITY_BYTES);
  let offsets = new Float64Array(capacity);
  let runs = new Uint16Array(capacity);
  let lengths = new Uint32Array(capacity);
  let timestampLengths = new Uint32Array(capacity);
  let changed = new Uint8Array(capacity);

  function grow(): void {
    capacity *= 2;
    groups = larger(groups, new Uint32Array(capacity));
    times = larger(times, new Float64Array(capacity));
    nanoseconds = larger(nanoseconds, new Uint32Array(capacity));
    identities = larger(identities, Buffer.alloc(capacity * IDENTITY_BYTES));
    offsets = larger(offsets, new Float64Array(capacity));
    runs = larger(runs, new Uint16Array(capacity));
    lengths = larger(lengths, new Uint32Array(capacity));
    timestampLengths = larger(timestampLengths, new Uint32Array(capacity));
    changed = larger(changed, new Uint8Array(capacity));
  }

  const compare = (a: number, b: number) =>
    groups[a]! - groups[b]! ||
    times[a]! - times[b]! ||
    nanoseconds[a]! - nanoseconds[b]! ||
    identities.compare(
      identities,
      b * IDENTITY_BYTES,
      (b + 1) * IDENTITY_BYTES,
      a * IDENTITY_BYTES,
      (a + 1) * IDENTITY_BYTES,
    ) ||
    a - b;

  return {
    get count() {
      return count;
    },
    add(group: number, event: JournalEvent, place: SpooledPlace, isChanged: boolean): void {
      if (count === capacity) grow();
      groups[count] = group;
      times[count] = event.timestampMs;
      nanoseconds[count] = nanosecondsOf(event.timestamp);
      identities.write(event.identity, count * IDENTITY_BYTES, "hex");
      offsets[count] = place.offset;
      lengths[count] = place.length;
      timestampLengths[count] = place.timestampLength;
      changed[count] = isChanged ? 1 : 0;
      count++;
    },
    /** The event has another place from now on, in the file. */
    move(row: number, offset: number, run: number): void {
      offsets[row] = offset;
      runs[row] = run;
    },
    group: (row: number) => groups[row]!,
    run: (row: number) => runs[row]!,
    identity: (row: number) => identities.subarray(row * IDENTITY_BYTES, (row + 1) * IDENTITY_BYTES),
    isChanged: (row: number) => changed[row] === 1,
    place: (row: number): SpooledPlace => ({
      offset: offsets[row]!,
      length: lengths[row]!,
      timestampLength: timestampLengths[row]!,
    }),
    /** The rows from this one on, in order. */
    sorted(firstRow: number): Uint32Array {
      const rows = new Uint32Array(count - firstRow);
      for (let at = 0; at < rows.length; at++) rows[at] = firstRow + at;
      return rows.sort(compare);
    },
    compare,
  };
}

function larger<Values extends Uint8Array | Uint16Array | Uint32Array | Float64Array>(
  old: Values,
  next: Values,
): Values {
  next.set(old as never);
  return next;
}

const ZERO = 0x30;

/** The digits of a timestamp's fraction behind its milliseconds, as nanoseconds. */
export function nanosecondsOf(timestamp: string): number {
  const point = timestamp.indexOf(".", 10);
  if (point < 0) return 0;
  let value = 0;
  let digits = 0;
  for (let at = point + 4; digits < 6 && isDigit(timestamp, at); at++, digits++)
    value = value * 10 + timestamp.charCodeAt(at) - ZERO;
  // A fraction of three digits or fewer has nothing behind its milliseconds.
  if (digits === 0 || !isDigit(timestamp, point + 3)) return 0;
  return value * 10 ** (6 - digits);
}

function isDigit(text: string, at: number): boolean {
  const code = text.charCodeAt(at) - ZERO;
  return code >= 0 && code <= 9;
}
