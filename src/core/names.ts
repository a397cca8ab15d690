import { hash } from "node:crypto";
import type { JournalEvent } from "./event.ts";

/**
 * Encodes event data for use in a path, topic or key (R22). The encoding is one to one, so two tenants never
 * share a name:
 *
 * - Lower-case letters, digits, `-` and `.` are kept. `_` becomes `__`.
 * - Every other byte of the UTF-8 text, a `.` at either end and the characters in `encoded` become `_` and two
 *   hexadecimal digits. Upper case is included because some file systems ignore case.
 * - An unpaired surrogate, which has no UTF-8 form, becomes `_u` and four digits.
 * - An absent value becomes `_none`. No other value encodes to that.
 * - A name that is too long keeps its beginning and ends in a hash.
 */
export function encodeName(value: string | null | undefined, lengthMax = 100, encoded = ""): string {
  if (value === null || value === undefined || value === "") return "_none";
  const name = value
    .replace(UNSAFE, encodeCharacter)
    .replace(/^\.|\.$/g, "_2e")
    .replace(/[-.]/g, (sign) => (encoded.includes(sign) ? hexOf(sign.charCodeAt(0)) : sign));
  return limitName(name, lengthMax);
}

/** Shortens a name that is too long: its beginning, then a hash of the whole name. */
export function limitName(name: string, lengthMax: number): string {
  if (name.length <= lengthMax) return name;
  return `${name.slice(0, lengthMax - 34)}_~${hash("sha256", name, "hex").slice(0, 32)}`;
}

/** The `u` flag matches by code point, so only unpaired surrogates match as surrogates. */
const UNSAFE = /[^a-z0-9.-]/gu;

function encodeCharacter(character: string): string {
  if (character === "_") return "__";
  const code = character.codePointAt(0)!;
  if (code >= 0xd800 && code <= 0xdfff) return `_u${code.toString(16)}`;
  return Array.from(Buffer.from(character, "utf8"), hexOf).join("");
}

function hexOf(byte: number): string {
  return `_${byte.toString(16).padStart(2, "0")}`;
}

const PLACEHOLDERS = ["account", "organization", "service", "event_type", "date", "month", "hour"] as const;
export type Placeholder = (typeof PLACEHOLDERS)[number];

/**
 * Compiles a template such as `{organization}/{service}/{date}`. Unknown placeholders are an error. The result
 * is one to one too: where `-` or `.` is the only separator between two values, it is encoded inside the
 * values. Two values without a separator are an error.
 */
export function compileTemplate(template: string, allowed: readonly Placeholder[] = PLACEHOLDERS) {
  const parts = template.split(/\{([^}]*)\}/);
  for (let at = 1; at < parts.length; at += 2) {
    if (!allowed.includes(parts[at] as Placeholder)) {
      throw new Error(
        `the placeholder {${parts[at]}} is not known: use ${allowed.map((name) => `{${name}}`).join(", ")}`,
      );
    }
  }
  const encoded = separatorsOf(parts);
  return (event: JournalEvent): string => {
    let text = parts[0]!;
    for (let at = 1; at < parts.length; at += 2) {
      text += placeholderValue(parts[at] as Placeholder, event, encoded) + parts[at + 1]!;
    }
    return text;
  };
}

/** Dates and hours have a fixed length, so they need no separator. */
const FIXED = new Set(["date", "month", "hour"]);

/** The characters to encode inside values, because the template uses them as separators. */
function separatorsOf(parts: readonly string[]): string {
  let encoded = "";
  let previous: string | undefined;
  let between = "";
  for (let at = 1; at < parts.length; at += 2) {
    const name = parts[at]!;
    between += parts[at - 1]!;
    if (FIXED.has(name)) continue;
    // A character outside the alphabet of encoded names is always a separator.
    if (previous !== undefined && !/[^a-z0-9._~-]/.test(between)) {
      const signs = between.replaceAll(/[^.-]/g, "");
      if (signs === "") {
        throw new Error(`{${previous}} and {${name}} run into each other: put a / or - or . between them`);
      }
      encoded += signs;
    }
    previous = name;
    between = "";
  }
  return encoded;
}

function placeholderValue(name: Placeholder, event: JournalEvent, encoded: string): string {
  switch (name) {
    case "account":
      return encodeName(event.account, undefined, encoded);
    case "organization":
      return encodeName(event.organization, undefined, encoded);
    case "service":
      return encodeName(event.service, undefined, encoded);
    case "event_type":
      return encodeName(event.eventType, undefined, encoded);
    case "date":
      return new Date(event.timestampMs).toISOString().slice(0, 10);
    case "month":
      return new Date(event.timestampMs).toISOString().slice(0, 7);
    case "hour":
      return new Date(event.timestampMs).toISOString().slice(11, 13);
  }
}
