import { type Costly, costly } from "../core/costly.ts";
import { holdsInexact } from "../core/inexact.ts";
import type { Fields } from "../core/meaning.ts";
import { isFields } from "../core/meaning.ts";

/** A string, which is skipped, or a number. */
const STRING_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/gs;

export interface Parsed {
  readonly event: Fields;
  /** What the bytes are, where they are kept as text. */
  readonly unreadable: "text" | Costly | undefined;
}

/**
 * Parses the bytes of an event. Integers past 2^53 and numbers too large for a double become text, because
 * JSON.parse would change them. Bytes that are no JSON object, or a costly one, are kept as text under `original`.
 */
export function parseEvent(bytes: Uint8Array): Parsed {
  const source = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
  const unreadable = costly(bytes);
  if (unreadable !== undefined) return { event: { original: source }, unreadable };
  try {
    const value: unknown = JSON.parse(source);
    if (isFields(value)) {
      const event = holdsInexact(value, source) ? (JSON.parse(exact(source)) as Fields) : value;
      return { event, unreadable: undefined };
    }
  } catch {
    // Not JSON: kept as text below.
  }
  return { event: { original: source }, unreadable: "text" };
}

function exact(source: string): string {
  return source.replace(STRING_OR_NUMBER, (token) => {
    if (token.startsWith('"')) return token;
    const value = Number(token);
    const integer = /^-?\d+$/.test(token);
    return Number.isFinite(value) && (!integer || Number.isSafeInteger(value)) ? token : `"${token}"`;
  });
}
