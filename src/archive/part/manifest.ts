import { lineLeaf } from "./hashing.ts";

/*
 * A manifest has one line for each organization of a part:
 *
 *   {"leaf":"<hash>","line":{…}}                     as it was closed
 *   {"leaf":"<hash>","replaces":"<hash>","line":{…}} after events of it were erased
 *   {"leaf":"<hash>","gone":<index of the log entry>} after it was pruned or erased
 *
 * `leaf` is the line's hash in the manifest's tree. The hashed bytes are those behind "line": up to the last brace.
 */

/** Why a table of tests and not zod: `verify` reads millions of lines, and this is ten times as fast. */
const isHex = (value: unknown) => typeof value === "string" && /^[0-9a-f]{64}$/.test(value);
const isCount = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0;
const isText = (value: unknown) => typeof value === "string" && value !== "";
const isTime = (value: unknown) =>
  typeof value === "string" && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/.test(value);
const isDay = (value: unknown) => typeof value === "string" && /^\d{4}-\d\d-\d\d$/.test(value);
const orNull =
  (test: Test): Test =>
  (value) =>
    value === null || test(value);
const oneOf =
  (...values: readonly string[]): Test =>
  (value) =>
    values.includes(value as string);
const listOf =
  (test: Test): Test =>
  (value) =>
    Array.isArray(value) && value.every(test);
const tuple =
  (...tests: readonly Test[]): Test =>
  (value) =>
    Array.isArray(value) && value.length === tests.length && tests.every((test, at) => test(value[at]));
const isStretch: Test = (value) =>
  typeof value === "object" &&
  value !== null &&
  Object.keys(value).join() === "from,to,reason" &&
  isTime((value as MissingStretch).from) &&
  isTime((value as MissingStretch).to) &&
  typeof (value as MissingStretch).reason === "string";

type Test = (value: unknown) => boolean;

interface MissingStretch {
  readonly from: string;
  readonly to: string;
  readonly reason: string;
}

export interface Line {
  /** An organization's id, or `provider:` and the id of a portal. */
  readonly organization: string;
  readonly day: string;
  readonly part: string;
  readonly class: string;
  readonly accounts: readonly string[];
  /** Slices in the range, with further versions of an event and erased ones. */
  readonly events: number;
  /** Distinct identities in the range, counted from what was written. */
  readonly held: number;
  /** Distinct identities that a pass begun at `asked` brought; null where no pass is about this line alone. */
  readonly returned: number | null;
  readonly asked: string | null;
  /** The result of a count query; null where none was made. */
  readonly counted: number | null;
  /** The second look that `complete` needs. */
  readonly check: "identities" | "count" | null;
  /** Distinct identities that arrived after their day was closed: all of a late part, none of another. */
  readonly late: number;
  readonly changed: number;
  /** SHA-256 over the sorted identities, each as 32 hexadecimal digits and a line break. */
  readonly ids_sha256: string;
  /** complete: two looks agree. unchecked: one look. differs: the service returned another number. missing: see there. addition: no claim. */
  readonly state: "complete" | "unchecked" | "differs" | "missing" | "addition";
  readonly missing: readonly MissingStretch[];
  /** Smallest and largest timestamp, as served; null without events. */
  readonly first: string | null;
  readonly last: string | null;
  /** Where the range begins in the data file. */
  readonly offset: number;
  readonly stored_bytes: number;
  readonly stored_sha256: string;
  readonly raw_bytes: number;
  readonly raw_sha256: string;
  readonly events_root: string;
  /** The length of the key frame, then stored and raw bytes and events of each frame. */
  readonly key_bytes: number;
  readonly frames: readonly (readonly [number, number, number])[];
  /** Index, offset and length of slices that contain line breaks (A14). */
  readonly breaks: readonly (readonly [number, number, number])[];
  /** Index and leaf hash of erased events; each is an empty line in the range. */
  readonly erased: readonly (readonly [number, string])[];
}

/** Keys are written in this order. */
const FIELDS: { readonly [Field in keyof Line]: Test } = {
  organization: isText,
  day: isDay,
  part: isText,
  class: isText,
  accounts: listOf((value) => typeof value === "string"),
  events: isCount,
  held: isCount,
  returned: orNull(isCount),
  asked: orNull(isTime),
  counted: orNull(isCount),
  check: orNull(oneOf("identities", "count")),
  late: isCount,
  changed: isCount,
  ids_sha256: isHex,
  state: oneOf("complete", "unchecked", "differs", "missing", "addition"),
  missing: listOf(isStretch),
  first: orNull((value) => typeof value === "string"),
  last: orNull((value) => typeof value === "string"),
  offset: isCount,
  stored_bytes: isCount,
  stored_sha256: isHex,
  raw_bytes: isCount,
  raw_sha256: isHex,
  events_root: isHex,
  key_bytes: isCount,
  frames: listOf(tuple(isCount, isCount, isCount)),
  breaks: listOf(tuple(isCount, isCount, isCount)),
  erased: listOf(tuple(isCount, isHex)),
};
const NAMES = Object.keys(FIELDS) as (keyof Line)[];

export type ManifestEntry =
  | {
      readonly leaf: string;
      readonly line: Line;
      readonly bytes: Buffer;
      readonly replaces?: string | undefined;
    }
  | { readonly leaf: string; readonly gone: number };

function encodeLine(line: Line): Buffer {
  return Buffer.from(JSON.stringify(Object.fromEntries(NAMES.map((name) => [name, line[name]]))));
}

/** Throws unless these are the bytes that `encodeLine` gives. */
export function parseLine(bytes: Buffer): Line {
  const text = bytes.toString("utf8");
  const line = JSON.parse(text) as Line;
  const names = Object.keys(line);
  const wrong = NAMES.find((name, at) => names[at] !== name || !FIELDS[name](line[name]));
  if (wrong !== undefined || names.length !== NAMES.length)
    throw new Error(`its field ${wrong} is not right`);
  // The same text: numbers, escapes and spaces have one form.
  if (JSON.stringify(line) !== text || !Buffer.from(text).equals(bytes))
    throw new Error("its bytes are not in the fixed form");
  return line;
}

export function entryOf(line: Line, nonce: Uint8Array, replaces?: string): ManifestEntry {
  const bytes = encodeLine(line);
  return { leaf: lineLeaf(nonce, bytes).toString("hex"), line, bytes, replaces };
}

export function encodeManifest(entries: readonly ManifestEntry[]): Buffer {
  return Buffer.concat(
    entries.map((entry) =>
      "gone" in entry
        ? Buffer.from(`{"leaf":"${entry.leaf}","gone":${entry.gone}}\n`)
        : Buffer.concat([
            Buffer.from(
              `{"leaf":"${entry.leaf}",${entry.replaces ? `"replaces":"${entry.replaces}",` : ""}"line":`,
            ),
            entry.bytes,
            Buffer.from("}\n"),
          ]),
    ),
  );
}

const GONE = /^\{"leaf":"([0-9a-f]{64})","gone":(0|[1-9]\d{0,15})\}$/;
const START = /^\{"leaf":"([0-9a-f]{64})",(?:"replaces":"([0-9a-f]{64})",)?"line":\{/;

/** Throws with the number of the line that is malformed. */
export function parseManifest(bytes: Buffer): ManifestEntry[] {
  const entries: ManifestEntry[] = [];
  let from = 0;
  while (from < bytes.length) {
    const end = bytes.indexOf(0x0a, from);
    try {
      if (end < 0) throw new Error("it has no line break");
      entries.push(parseEntry(bytes.subarray(from, end)));
    } catch (error) {
      throw new Error(`line ${entries.length + 1} is malformed`, { cause: error });
    }
    from = end + 1;
  }
  return entries;
}

function parseEntry(bytes: Buffer): ManifestEntry {
  const gone = bytes.length < 200 ? GONE.exec(bytes.toString("latin1")) : null;
  if (gone) return { leaf: gone[1]!, gone: Number(gone[2]) };
  const start = START.exec(bytes.toString("latin1", 0, 200));
  if (!start || bytes.at(-1) !== 0x7d) throw new Error("it is no entry");
  const own = bytes.subarray(start[0].length - 1, -1);
  return { leaf: start[1]!, line: parseLine(own), bytes: own, replaces: start[2] };
}
