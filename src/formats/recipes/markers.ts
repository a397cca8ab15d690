import { randomBytes } from "node:crypto";
import { isIP } from "node:net";
import type { EventSlice } from "../../core/recipe-engine.ts";
import { isEmail } from "../wording.ts";

export interface Markers {
  /** Part of every marker that is a word. */
  readonly prefix: string;
  /**
   * A replacement for a slice of an event that occurs nowhere else. Converters treat it like the slice itself: it
   * has the same answers to the questions of wasm/recipe/classes.ts. Its copies in the output show where the
   * slice goes.
   */
  markerFor(text: string, kind: EventSlice["kind"], isQuoted: boolean): string;
  /** A whole number of milliseconds that occurs nowhere else, in this century. */
  timeMs(): number;
  identity(): string;
}

/** The length of a word in a marker. */
export const WORD_LENGTH = 12;
/** Bytes of randomness that are made at once: enough for dozens of events. */
const POOL_BYTES = 8192;

/** A random whole number below the limit. */
export type Random = (limit: number) => number;

export function createRandom(): Random {
  let pool = randomBytes(POOL_BYTES);
  let used = 0;
  return (limit) => {
    if (used + 4 > POOL_BYTES) {
      pool = randomBytes(POOL_BYTES);
      used = 0;
    }
    const value = pool.readUInt32LE(used) % limit;
    used += 4;
    return value;
  };
}

/** Markers for one event. */
export function createMarkers(below: Random): Markers {
  let runs = 0;
  let words = 0;
  const prefix = letters(below(26 ** 6));

  /** Twelve letters, lower case: the random ones that all words share, and a number. */
  function word(): string {
    return prefix + letters(words++);
  }

  function timeMs(): number {
    return Date.UTC(2031, 0, 1) + below(2 ** 31) * 512 + below(512);
  }

  /** Begins and ends with a digit that is not zero, so that no digit is lost in a number. */
  function digits(length: number): string {
    const middle = String(below(1e9)).padStart(9, "0") + String(below(1e9)).padStart(9, "0");
    return `${1 + below(9)}${middle.slice(0, Math.max(0, length - 2))}${1 + below(9)}`.slice(-length);
  }

  /** A fraction keeps its whole part, and so its size. */
  function numberMarker(text: string): string {
    const [whole, fraction] = text.split(".") as [string, string | undefined];
    if (fraction !== undefined) return `${whole}.${digits(14 - whole.length)}`;
    return `${text.startsWith("-") ? "-" : ""}${digits(13)}`;
  }

  function addressMarker(text: string): string {
    const octet = () => 100 + below(150);
    return isIP(text) === 0 ? word() : `${octet()}.${octet()}.${octet()}.${octet()}`;
  }

  return {
    prefix,
    timeMs,
    identity: () => Array.from({ length: 4 }, () => (2 ** 31 + below(2 ** 31)).toString(16)).join(""),
    markerFor(text, kind, isQuoted) {
      switch (kind) {
        case "run":
          // The name is not random: with each new name the engine of JavaScript makes a new kind of object.
          return `"markedrun${letters(runs++)}":"${word()}"`;
        case "changes":
          return `${text.slice(0, -1)}${text === "[]" ? "" : ","}"${word()}"]`;
        case "time":
          // A fraction of seven digits is never what `toISOString` writes.
          return `${new Date(timeMs()).toISOString().slice(0, 19)}.${digits(7)}Z`;
        case "number":
        case "latitude":
        case "longitude":
          return numberMarker(text);
        case "url":
          return `${word()}${/\/saml/i.test(text) ? "/saml" : "/"}${word()}`;
        case "email":
          return isEmail(text) ? `${word()}@${word()}.example` : word();
        case "address":
          return addressMarker(text);
        case "copied":
        case "compared":
        case "decides":
        case "type":
          return isQuoted ? word() : numberMarker(text);
      }
    },
  };
}

const PAIRS = Array.from({ length: 676 }, (_, at) =>
  String.fromCharCode(97 + (at % 26), 97 + Math.floor(at / 26)),
);

/** Six of them. */
function letters(value: number): string {
  return `${PAIRS[value % 676]}${PAIRS[Math.floor(value / 676) % 676]}${PAIRS[Math.floor(value / 456_976)]}`;
}
