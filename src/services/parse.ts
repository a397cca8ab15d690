import type { Fields } from "../core/meaning.ts";
import { isFields } from "../core/meaning.ts";

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** A number literal with so many digits, or such an exponent, that a double may not hold it. */
const LONG_NUMBER = /[:,[\s]-?\d+(?:\d{15}|(?:\.\d+)?[eE])/;
/** A string, which is passed over, or a number. */
const STRING_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/gs;

export interface Parsed {
  readonly event: Fields;
  readonly unreadable: boolean;
}

/**
 * Parses an event's bytes. Integers past 2^53, and numbers too large for a double, become the text they
 * were written as: JSON.parse would change them. Bytes that are no JSON object are kept as text under
 * `original`.
 */
export function parseEvent(bytes: Uint8Array): Parsed {
  const source = decoder.decode(bytes);
  try {
    const value: unknown = JSON.parse(LONG_NUMBER.test(source) ? exact(source) : source);
    if (isFields(value)) return { event: value, unreadable: false };
  } catch {
    // Not JSON: kept as it is.
  }
  return { event: { original: source }, unreadable: true };
}

function exact(source: string): string {
  return source.replace(STRING_OR_NUMBER, (token) => {
    if (token.startsWith('"')) return token;
    const value = Number(token);
    const integer = /^-?\d+$/.test(token);
    return Number.isFinite(value) && (!integer || Number.isSafeInteger(value)) ? token : `"${token}"`;
  });
}
