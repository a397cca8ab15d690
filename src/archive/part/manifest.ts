import { z } from "zod";
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

const hex = z.string().regex(/^[0-9a-f]{64}$/);
const count = z.int().min(0);
const time = z.iso.datetime();

/** Keys are written in this order. */
export const lineSchema = z.strictObject({
  /** An organization's id, or `provider:` and the id of a portal. */
  organization: z.string().min(1),
  day: z.string().regex(/^\d{4}-\d\d-\d\d$/),
  part: z.string().min(1),
  class: z.string().min(1),
  accounts: z.array(z.string()),
  /** Slices in the range, with further versions of an event and erased ones. */
  events: count,
  /** Distinct identities in the range, counted from what was written. */
  held: count,
  /** Distinct identities that a pass begun at `asked` brought; null where no pass is about this line alone. */
  returned: count.nullable(),
  asked: time.nullable(),
  /** What a count query said; null where none was made. */
  counted: count.nullable(),
  /** The second look that `complete` needs. */
  check: z.enum(["identities", "count"]).nullable(),
  late: count,
  changed: count,
  /** SHA-256 over the sorted identities, each as 32 hexadecimal digits and a line break. */
  ids_sha256: hex,
  /** complete: two looks agree. unchecked: one look. differs: the service returned another number. missing: see there. addition: no claim. */
  state: z.enum(["complete", "unchecked", "differs", "missing", "addition"]),
  missing: z.array(z.strictObject({ from: time, to: time, reason: z.string() })),
  /** Smallest and largest timestamp, as served; null without events. */
  first: z.string().nullable(),
  last: z.string().nullable(),
  /** Where the range begins in the data file. */
  offset: count,
  stored_bytes: count,
  stored_sha256: hex,
  raw_bytes: count,
  raw_sha256: hex,
  events_root: hex,
  /** The length of the key frame, then stored and raw bytes and events of each frame. */
  key_bytes: count,
  frames: z.array(z.tuple([count, count, count])),
  /** Index, offset and length of slices that contain line breaks (A14). */
  breaks: z.array(z.tuple([count, count, count])),
  /** Index and leaf hash of erased events; each is an empty line in the range. */
  erased: z.array(z.tuple([count, hex])),
});

export type Line = z.output<typeof lineSchema>;

export type ManifestEntry =
  | {
      readonly leaf: string;
      readonly line: Line;
      readonly bytes: Buffer;
      readonly replaces?: string | undefined;
    }
  | { readonly leaf: string; readonly gone: number };

export function encodeLine(line: Line): Buffer {
  return Buffer.from(JSON.stringify(lineSchema.parse(line)));
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
  const line = lineSchema.parse(JSON.parse(own.toString("utf8")));
  if (!encodeLine(line).equals(own)) throw new Error("its bytes are not in the fixed order");
  return { leaf: start[1]!, line, bytes: own, replaces: start[2] };
}
