import { isUtf8 } from "node:buffer";
import { costly } from "../../core/costly.ts";
import type { JournalEvent } from "../../core/event.ts";
import type { Format, FormatContext } from "../../core/format.ts";
import { holdsInexact } from "../../core/inexact.ts";
import type { JournalPage } from "../../core/journal.ts";
import type { Describe } from "../../core/meaning.ts";
import { STRIDE } from "../../core/page-scratch.ts";
import type { EventsInPlace, SharedLines } from "../../core/page-slice.ts";
import type { Reads } from "../../core/reads.ts";
import { type Conversion, createRecipeEngine, SPECIAL } from "../../core/recipe-engine.ts";
import { createComposer } from "./compose.ts";
import { createJoiner } from "./join-lines.ts";
import { createLearner, type Encode, specialsOf } from "./learn.ts";
import { createLists } from "./lists.ts";

/** Fingerprints without a recipe whose events are counted. When there are more, all are forgotten. */
const SEEN_MAX = 8192;
/**
 * So many events of a fingerprint go to the converter before one teaches a recipe. Learning and its checks cost as
 * much as five to ten conversions. With 2 instead of 1 a quarter fewer recipes are learned, which takes a tenth of
 * the time of OCSF; with 3 and more, what the converter does then takes it back.
 */
const RARE_EVENTS = 2;

/** Of many, so many are converted alone at most: what is learned from one takes up to a millisecond. */
const ALONE_MAX = 8;

export interface RecipeCounts {
  /** Converted by a recipe. */
  fast: number;
  /** Converted by the converter: new, rare, or not to be made by copying. */
  slow: number;
  /** Of many at once, those that had to be converted one by one. */
  alone: number;
  learned: number;
  /** Fingerprints whose output cannot be made by copying. */
  refused: number;
  /** Recipes that gave something else than the converter. */
  wrong: number;
}

/** A converter that describes events in this way. */
export type MakeEncode = (describe: Describe) => Encode;

/** The converter itself, or with recipes where the context has what they need. */
export function fast(
  make: MakeEncode,
  { describe, reads, onMismatch }: FormatContext,
): Pick<Format, "encode" | "encodeShared" | "encodeMany"> {
  if (reads === undefined) return { encode: make(describe) };
  const { encode: copied, encodeShared, encodeMany } = withRecipes(make, describe, reads, onMismatch);
  return { encode: copied, encodeShared, encodeMany };
}

/**
 * Makes a converter fast. Events with one fingerprint differ only in slices that the converter copies. So the
 * output for the third of them is learned as a recipe of literals and copies, and applied to those that follow.
 * Nearly half of all fingerprints are seen only once, so the first events teach nothing.
 *
 * The converter stays the authority. A new recipe is compared with it three times, and one in a thousand of all
 * conversions is. A difference drops the recipe and is counted, and the converter's output is delivered.
 *
 * A recipe can also be made of two halves: a template for the event without its groups, and the texts that groups of
 * this kind add to it. Each half is compared with the converter three times, and each pair of halves when it is first used.
 */
export function withRecipes(
  make: MakeEncode,
  describe: Describe,
  reads: Reads,
  onMismatch?: FormatContext["onMismatch"],
) {
  const encode = make(describe);
  const engine = createRecipeEngine(reads);
  const lists = createLists(describe);
  const learn = createLearner(make(lists.describeMarked), lists);
  const composer = createComposer(engine);
  const join = createJoiner();
  const counts: RecipeCounts = { fast: 0, slow: 0, alone: 0, learned: 0, refused: 0, wrong: 0 };
  /** Events so far, by the fingerprint. */
  const seen = new Map<string, number>();
  let account: string | undefined;
  let provider: string | null | undefined;
  let organization: string | undefined;
  let fetchedAtMs: number | undefined;

  /** Gives the engine the values that are not in the event's bytes. Most are the same for a whole page. */
  function prepare(event: JournalEvent): void {
    if (event.account !== account || event.provider !== provider) {
      ({ account, provider } = event);
      engine.setSalt(`${account}\0${provider ?? "\0"}`);
    }
    const owner = event.organization ?? "";
    if (owner !== organization) {
      engine.setSpecial(SPECIAL.organization, owner);
      organization = owner;
    }
    if (event.fetchedAtMs !== fetchedAtMs) {
      fetchedAtMs = event.fetchedAtMs;
      const specials = specialsOf(event);
      engine.setSpecial(SPECIAL.fetchedAtMs, specials[SPECIAL.fetchedAtMs]!);
      engine.setSpecial(SPECIAL.fetchedAt, specials[SPECIAL.fetchedAt]!);
    }
    engine.setSpecial(SPECIAL.identity, event.identity);
  }

  function slow(event: JournalEvent): string {
    counts.slow++;
    return encode(event);
  }

  /** Where the lists of its changes are missing, converts the last event once more with them. */
  function withLists(event: JournalEvent, conversion: Conversion): Conversion {
    if (conversion !== "no_list") return conversion;
    for (const { list, text } of lists.textsFor(event))
      engine.add([{ kind: "literal", bytes: Buffer.from(text) }], { list });
    return engine.convertAgain();
  }

  /** Learns from an event whose fingerprint the engine has just made, and tries what it learned on it. */
  function learnFrom(event: JournalEvent, bytes: Uint8Array): string {
    const output = slow(event);
    const groups = engine.groups();
    const learned = learn({ ...fieldsOf(event), bytes, size: bytes.length }, engine.slices(), groups);
    const isRight = () => {
      const conversion = withLists(event, engine.convertAgain());
      return typeof conversion === "number" && engine.out(conversion).toString("utf8") === output;
    };
    if (learned !== undefined && groups.length > 0 && composer.learn(learned.factors)) {
      if (isRight()) {
        counts.learned++;
        return output;
      }
      composer.refuse();
    }
    engine.add(learned?.parts ?? []);
    if (learned !== undefined && isRight()) counts.learned++;
    else {
      counts.refused++;
      if (learned !== undefined) engine.add([]);
    }
    return output;
  }

  /** Under what the event is counted until it is learned. */
  function counted(): string {
    return (engine.groups().length > 0 ? composer.counted() : undefined) ?? engine.fingerprint();
  }

  function isRare(): boolean {
    const key = counted();
    const events = seen.get(key) ?? 0;
    if (events === RARE_EVENTS) {
      seen.delete(key);
      return false;
    }
    if (events === 0 && seen.size >= SEEN_MAX) seen.clear();
    seen.set(key, events + 1);
    return true;
  }

  function checked(event: JournalEvent, converted: Buffer): Buffer | string {
    const output = encode(event);
    if (converted.toString("utf8") === output) return converted;
    counts.wrong++;
    if (engine.isComposed()) composer.refuse();
    engine.add([]);
    onMismatch?.(event);
    return output;
  }

  function convert(event: JournalEvent, bytes: Uint8Array): Buffer | string | undefined {
    const length = withLists(event, engine.convert(bytes, event.timestampMs));
    if (typeof length === "number") {
      // The converter replaces broken UTF-8; a copy would keep it.
      if (engine.isWide(bytes.length) && !isUtf8(bytes)) return slow(event);
      counts.fast++;
      const converted = engine.out(length);
      return engine.isCheckDue() ? checked(event, converted) : converted;
    }
    switch (length) {
      case "not_canonical":
        return undefined;
      case "dropped":
      case "no_list":
        return slow(event);
      case "unknown":
        if (engine.isWide(bytes.length) && !isUtf8(bytes)) return slow(event);
        return isRare() ? slow(event) : learnFrom(event, bytes);
    }
  }

  /** Converts an event that JSON.stringify would write differently. */
  function convertOther(event: JournalEvent, bytes: Uint8Array): Buffer | string | undefined {
    const numbered = engine.canonical(bytes);
    const converted = numbered && convert(event, numbered);
    if (converted !== undefined) return converted;
    const canonical = canonicalOf(bytes);
    return canonical && convert(event, canonical);
  }

  /** Bytes that a recipe gave are the engine's: the next call overwrites them. */
  function encodeShared(event: JournalEvent): Buffer | string {
    const { bytes } = event;
    if (costly(bytes)) return slow(event);
    prepare(event);
    return convert(event, bytes) ?? convertOther(event, bytes) ?? slow(event);
  }

  /** Most events are converted together, the others alone. */
  function encodeMany(page: JournalPage, from: number, end: number): SharedLines | undefined {
    const { inPlace } = page;
    if (inPlace === undefined) return undefined;
    const to = engine.fitting(inPlace, from, end);
    if (!isText(inPlace, from, to)) return undefined;
    prepare(page.event(from));
    // The engine sets it for each event.
    organization = undefined;
    const length = engine.convertMany(inPlace, from, to);
    if (length === undefined) return undefined;
    const ends = engine.ends(to - from);
    const lines = () => engine.lines(length);
    if (ends.every((end) => end >= 0)) {
      counts.fast += ends.length;
      return { bytes: lines(), ends };
    }
    let alone = 0;
    const makeAlone = (at: number) => {
      alone++;
      return encodeShared(page.event(from + at));
    };
    try {
      const joined = join({ lines, ends, aloneMax: ALONE_MAX, makeAlone });
      const count = joined.ends.length;
      counts.fast += count - alone;
      counts.alone += alone;
      return joined;
    } catch {
      // The converter failed on one of them. One by one, it shows on which.
      return undefined;
    }
  }

  return {
    counts,
    encodeShared,
    encodeMany,
    encode(event: JournalEvent): Buffer | string {
      const encoded = encodeShared(event);
      return typeof encoded === "string" ? encoded : Buffer.from(encoded);
    },
  };
}

/** The converter replaces broken UTF-8; a copy would keep it. */
function isText({ bytes, columns }: EventsInPlace, from: number, to: number): boolean {
  return isUtf8(bytes.subarray(columns[from * STRIDE]!, columns[(to - 1) * STRIDE + 1]!));
}

/** The same event as JSON.stringify writes it. Undefined for bytes that are no JSON, and for numbers that it would change. */
function canonicalOf(bytes: Uint8Array): Buffer | undefined {
  try {
    const source = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
    const value = JSON.parse(source) as object;
    return holdsInexact(value, source) ? undefined : Buffer.from(JSON.stringify(value));
  } catch {
    return undefined;
  }
}

/** Events of the journal compute their fields when they are read. */
function fieldsOf(event: JournalEvent): Omit<JournalEvent, "bytes" | "size"> {
  const { account, organization, provider, service, eventType, timestamp, timestampMs } = event;
  const { id, correlationId, identity, fetchedAtMs, page, index } = event;
  return {
    account,
    organization,
    provider,
    service,
    eventType,
    timestamp,
    timestampMs,
    id,
    correlationId,
    identity,
    fetchedAtMs,
    page,
    index,
  };
}
