import {
  elementsOf,
  isArrayAt,
  isObjectAt,
  isStringAt,
  type JsonSlice,
  membersOf,
  skipSpace,
  stringAt,
  textAt,
} from "../shared/json-slices.ts";
import { LONG_VALUES } from "./mappings.ts";

/*
 * Lucene holds terms of at most 32,766 bytes, and OpenSearch refuses a document with a longer one in a
 * flat_object. The term is the path of the value with the value. So over-long values are cut in their place
 * and kept whole in a member that is not indexed. Everything else keeps its bytes.
 */

const TERM_BYTES_MAX = 32_766;
/** A document below this size cannot hold such a term. */
const SAFE_BYTES = 32_000;
const CUT_CHARACTERS = 1024;

interface LongValue {
  readonly path: string;
  readonly value: JsonSlice;
}

interface Edit extends JsonSlice {
  readonly text: string;
}

/** `members` are paths of flat objects; "" means all members. The same bytes where nothing is too long. */
export function withoutLongValues(document: Uint8Array, members: readonly string[]): Uint8Array {
  if (document.length < SAFE_BYTES || members.length === 0) return document;
  const start = skipSpace(document, 0);
  const cutter = createCutter(document);
  for (const member of members) {
    if (member === "") cutter.cutObject(start, "");
    else cutter.cutBelow(start, member.split("."), member);
  }
  if (cutter.found.length === 0) return document;
  const kept = cutter.found.map(
    ({ path, value }) => `{"path":${JSON.stringify(path)},"value":${textAt(document, value)}}`,
  );
  const end = document.lastIndexOf(0x7d);
  const more = { from: end, to: end, text: `,"${LONG_VALUES}":[${kept.join(",")}]` };
  return edited(document, [...cutter.edits, more]);
}

function createCutter(document: Uint8Array) {
  const found: LongValue[] = [];
  const edits: Edit[] = [];

  /** The members of that path; of a name that occurs twice, all. */
  function cutBelow(at: number, [name, ...rest]: readonly string[], path: string): void {
    if (!isObjectAt(document, at)) return;
    for (const member of membersOf(document, at)) {
      if (stringAt(document, member.name) !== name) continue;
      if (rest.length === 0) cut(member.value, path);
      else cutBelow(member.value.from, rest, path);
    }
  }

  function cut(value: JsonSlice, path: string): void {
    if (isStringAt(document, value.from)) cutText(value, path);
    else if (isObjectAt(document, value.from)) cutObject(value.from, path);
    else if (isArrayAt(document, value.from))
      for (const element of elementsOf(document, value.from)) cut(element, path);
  }

  /** A name that is too long itself is left out with its value, and with one of the commas beside it. */
  function cutObject(at: number, path: string): void {
    let keptEnd = at + 1;
    let removed: { from: number; to: number } | undefined;
    for (const { name, value } of membersOf(document, at)) {
      const own = stringAt(document, name);
      const inner = path === "" ? own : `${path}.${own}`;
      if (Buffer.byteLength(inner) > TERM_BYTES_MAX / 2) {
        found.push({ path: inner, value });
        removed = { from: removed?.from ?? name.from, to: value.to };
        continue;
      }
      cut(value, inner);
      if (removed !== undefined) edits.push({ from: removed.from, to: name.from, text: "" });
      removed = undefined;
      keptEnd = value.to;
    }
    if (removed !== undefined) edits.push({ from: keptEnd, to: removed.to, text: "" });
  }

  function cutText(value: JsonSlice, path: string): void {
    // One byte for the sign between path and value, and some for names that the server puts in front.
    const bytesMax = TERM_BYTES_MAX - Buffer.byteLength(path) - 64;
    // Escapes only make the written form longer.
    if (value.to - value.from - 2 <= bytesMax) return;
    const text = stringAt(document, value);
    if (Buffer.byteLength(text) <= bytesMax) return;
    found.push({ path, value });
    const start = text.slice(0, CUT_CHARACTERS).replace(/[\uD800-\uDBFF]$/, "");
    edits.push({ ...value, text: JSON.stringify(`${start}…`) });
  }

  return { found, edits, cutBelow, cutObject };
}

function edited(document: Uint8Array, edits: readonly Edit[]): Buffer {
  const parts: Uint8Array[] = [];
  let at = 0;
  for (const { from, to, text } of edits.toSorted((a, b) => a.from - b.from)) {
    parts.push(document.subarray(at, from), Buffer.from(text));
    at = to;
  }
  return Buffer.concat([...parts, document.subarray(at)]);
}
