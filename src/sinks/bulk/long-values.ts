import { LONG_VALUES } from "./mappings.ts";

/*
 * Lucene holds terms of at most 32,766 bytes, and OpenSearch refuses a document with a longer one in a
 * flat_object. The term is the path of the value with the value. So over-long values are cut in their place
 * and kept whole in a member that is not indexed.
 */

const TERM_BYTES_MAX = 32_766;
/** A document below this size cannot hold such a term. */
const SAFE_BYTES = 32_000;
const CUT_CHARACTERS = 1024;

interface LongValue {
  readonly path: string;
  readonly value: unknown;
}

/** `members` are paths of flat objects; "" means all members. The same bytes where nothing is too long. */
export function withoutLongValues(document: Uint8Array, members: readonly string[]): Uint8Array {
  if (document.length < SAFE_BYTES || members.length === 0) return document;
  const parsed = parsedOf(document);
  if (parsed === undefined) return document;
  const found: LongValue[] = [];
  for (const member of members) cutMember(parsed, member === "" ? [] : member.split("."), found);
  if (found.length === 0) return document;
  return Buffer.from(JSON.stringify({ ...parsed, [LONG_VALUES]: found }));
}

/** Undefined for bytes that are no JSON: the server says what is wrong with them. */
function parsedOf(document: Uint8Array): Record<string, unknown> | undefined {
  try {
    return JSON.parse(Buffer.from(document).toString()) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}

function cutMember(holder: Record<string, unknown>, path: readonly string[], found: LongValue[]): void {
  let at: Record<string, unknown> = holder;
  for (const name of path.slice(0, -1)) {
    const inner = at[name];
    if (typeof inner !== "object" || inner === null) return;
    at = inner as Record<string, unknown>;
  }
  const last = path.at(-1);
  if (last === undefined) cutObject(at, "", found);
  else at[last] = cut(at[last], path.join("."), found);
}

function cut(value: unknown, path: string, found: LongValue[]): unknown {
  if (typeof value === "string") return cutText(value, path, found);
  if (Array.isArray(value)) return value.map((element) => cut(element, path, found));
  if (typeof value === "object" && value !== null) cutObject(value as Record<string, unknown>, path, found);
  return value;
}

/** A name that is too long itself is left out with its value. */
function cutObject(object: Record<string, unknown>, path: string, found: LongValue[]): void {
  for (const name of Object.keys(object)) {
    const inner = path === "" ? name : `${path}.${name}`;
    if (Buffer.byteLength(inner) > TERM_BYTES_MAX / 2) {
      found.push({ path: inner, value: object[name] });
      delete object[name];
    } else object[name] = cut(object[name], inner, found);
  }
}

function cutText(value: string, path: string, found: LongValue[]): string {
  // One byte for the sign between path and value, and some for names that the server puts in front.
  if (Buffer.byteLength(value) + Buffer.byteLength(path) + 64 <= TERM_BYTES_MAX) return value;
  found.push({ path, value });
  return `${value.slice(0, CUT_CHARACTERS).replace(/[\uD800-\uDBFF]$/, "")}…`;
}
