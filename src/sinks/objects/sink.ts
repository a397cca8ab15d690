import { createHash } from "node:crypto";
import { RejectedEventsError, type TooLargeError } from "../../core/errors.ts";
import type { JournalEvent } from "../../core/event.ts";
import { type Batch, type Sink, type SinkContext, type SinkRecord, totalsOf } from "../../core/sink.ts";
import { bytesOf, singleLine } from "../shared/body.ts";
import type { Compression } from "./config.ts";
import type { ObjectLines } from "./content.ts";
import { foreignObject, keyOf, metadataOf, partsBy } from "./key.ts";
import { type Folders, openSchemes, type Scheme } from "./layout.ts";
import { EVENTS_DIGEST, type ObjectStore } from "./store.ts";
import { type RecordRange, storeRange, storeWhole } from "./store-range.ts";
import { storedObjects } from "./stored.ts";
import { writeParts } from "./write-parts.ts";

/**
 * Events as objects, each exactly once. The steps of a batch:
 *
 * 1. Delivery makes the batch's bounds and layout durable (R19). They determine its partitions, keys and contents; a
 *    batch that was begun with another config is completed with the layout of that one (layout.ts).
 * 2. Each part is created under its key, which must not exist yet. Parts are written side by side, and one that fails
 *    for the moment does not end the attempt (write-parts.ts). The next attempt goes on with the parts that are left
 *    (stored.ts).
 * 3. A key that exists is done if its digest is ours; a part that an earlier attempt wrote is such a key. It is done too
 *    if it was made of the same events in another form: another version, or another format of the config, wrote it (C12).
 *    Anything else is another journal's object, and a person decides (R26).
 *    An object of a partition that is too large is stored in pieces (store-range.ts).
 * 4. `write` returns, and delivery commits the position.
 */
export const OBJECTS_PROMISE =
  "Exactly once: an object's key is its bounds in the journal, which are durable before it is written, and an existing key is never replaced.";

export interface ObjectSettings {
  readonly prefix: string;
  readonly partition?: string | undefined;
  readonly objectBytesMax: number;
  readonly objectEventsMax: number;
  readonly objectAgeMax: number;
}

export interface ObjectSinkParts {
  readonly store: ObjectStore;
  readonly settings: ObjectSettings;
  readonly compression: Compression;
  readonly folders?: Folders;
  /** The order of the records in an object; the journal's where it is left out. */
  order?(a: JournalEvent, b: JournalEvent): number;
}

const BREAK = Buffer.from("\n");

/** Opens a sink over the store, which it closes. */
export async function openObjects(context: SinkContext<unknown>, parts: ObjectSinkParts): Promise<Sink> {
  const { store, settings, compression, order } = parts;
  const schemes = await openSchemes(context, { ...settings, compression }, parts.folders);
  const stored = storedObjects(context.memory);

  /** One object without partitions takes the lines of the journal's pages as they are. */
  function partsOf(batch: Batch, { partitionOf }: Scheme): readonly Part[] {
    const keepsBytes = context.format.keepsBytes === true;
    if (keepsBytes && batch.stretches !== undefined && partitionOf === undefined && order === undefined) {
      const lines = batch.stretches.map(({ lines: page, from, to }) => ({
        pieces: [page.bytes(from, to)],
        frames: page.frames?.(from, to),
      }));
      return [{ partition: undefined, count: totalsOf(batch).count, objectOf: () => ({ lines }) }];
    }
    return Array.from(partsBy(batch.records, partitionOf), ([partition, records]) => ({
      partition,
      count: records.length,
      records,
      objectOf({ from, to }: RecordRange) {
        const own = records.slice(from, to);
        const ordered = order ? own.toSorted((a, b) => order(a.event, b.event)) : own;
        const pieces = ordered.flatMap(({ body }) => [body, BREAK]);
        const eventsDigest = digestOf([{ pieces: own.flatMap(({ event }) => [event.bytes, BREAK]) }]);
        return { lines: [{ pieces }], eventsDigest };
      },
    }));
  }

  /** False: an earlier attempt stored it. Adds the records that are too large even alone. */
  async function writePart(
    { batch, scheme, refused }: Writing,
    part: Part,
    signal: AbortSignal,
  ): Promise<boolean> {
    const store = rangesOf(batch, scheme, part, signal);
    const whole = { from: 0, to: part.count };
    const { key, digest } = store.named(whole);
    if (stored.has(key, digest)) return false;
    // Delivery halves a batch of one object that is too large.
    if (scheme.partitionOf === undefined) await storeWhole(store, whole);
    else {
      const alone = await storeRange(store, whole);
      refused.push(...alone.map(({ index, error }) => ({ record: part.records![index]!, error })));
      // Not remembered with refused records: the next attempt has to report them again.
      if (alone.length > 0) return true;
    }
    stored.add(key, digest);
    return true;
  }

  function rangesOf(batch: Batch, { layout, content }: Scheme, part: Part, signal: AbortSignal) {
    const keyAt = (from: number) => keyOf(layout, batch, part.partition, from);
    const nameOf = (range: RecordRange) => {
      const { lines, eventsDigest } = part.objectOf(range);
      const digest = digestOf(lines);
      return { range, key: keyAt(range.from), lines, digest, eventsDigest: eventsDigest ?? digest };
    };
    // Hashing takes its time, and a range is asked for more than once.
    let last: ReturnType<typeof nameOf> | undefined;
    const named = (range: RecordRange) => {
      if (last?.range.from !== range.from || last.range.to !== range.to) last = nameOf(range);
      return last;
    };
    return {
      named,
      async create(range: RecordRange): Promise<boolean> {
        const { key, lines, digest, eventsDigest } = named(range);
        const body = await content.encode(lines);
        const metadata = metadataOf(batch, range.to - range.from, digest, eventsDigest);
        return store.create({ key, body, contentType: content.contentType, metadata }, signal);
      },
      async holds(range: RecordRange): Promise<boolean | undefined> {
        const { key, digest, eventsDigest } = named(range);
        const found = await store.digestOf(key, signal);
        if (found === undefined) return undefined;
        return found === digest || (await store.digestOf(key, signal, EVENTS_DIGEST)) === eventsDigest;
      },
      foreign: ({ from }: RecordRange) => foreignObject(store.place, keyAt(from), context.name),
    };
  }

  async function close(): Promise<void> {
    await schemes.close();
    await store.close();
  }

  try {
    await store.greet(context.signal);
    stored.opened();
  } catch (error) {
    stored.failed(error);
    await close();
    throw error;
  }
  return {
    layout: schemes.own.layout,
    limits: {
      recordsMax: settings.objectEventsMax,
      bytesMax: settings.objectBytesMax,
      limitedBy: "objectBytesMax",
      recordOverheadBytes: 1,
      ageMsMax: settings.objectAgeMax,
    },
    // A format that keeps the bytes of events gives lines, and delivery then hands over whole stretches of them.
    ...(context.format.keepsBytes !== true && {
      encode: (event: JournalEvent) => singleLine(bytesOf(context.format.encode(event))),
    }),
    async write(batch, signal) {
      signal.throwIfAborted();
      try {
        const scheme = schemes.of(batch);
        const refused: RefusedEvent[] = [];
        const writing = { batch, scheme, refused };
        await writeParts(partsOf(batch, scheme), (part) => writePart(writing, part, signal)).catch(
          (error) => {
            throw schemes.explained(error, scheme);
          },
        );
        if (refused.length > 0) throw rejectionOf(batch, refused);
      } catch (error) {
        stored.failed(error);
        throw error;
      }
      stored.written();
      return undefined;
    },
    close,
  };
}

/** The records of one object. */
interface Part {
  readonly partition: string | undefined;
  readonly count: number;
  /** Absent where the lines are those of pages; then the object is never cut. */
  readonly records?: readonly SinkRecord[];
  /** `eventsDigest` is of the events as the service sent them; absent where the lines are that. */
  objectOf(range: RecordRange): { readonly lines: readonly ObjectLines[]; readonly eventsDigest?: string };
}

/** One attempt at a batch. `refused` gets the records that are too large even alone. */
interface Writing {
  readonly batch: Batch;
  readonly scheme: Scheme;
  readonly refused: RefusedEvent[];
}

interface RefusedEvent {
  readonly record: SinkRecord;
  readonly error: TooLargeError;
}

/** All others are stored. */
function rejectionOf({ records }: Batch, refused: readonly RefusedEvent[]): RejectedEventsError {
  const rejected = refused.map(({ record, error }) => ({
    index: records.indexOf(record),
    reason: error.message,
  }));
  return new RejectedEventsError("Events are too large for the destination.", rejected);
}

/** Of the uncompressed content (R26). */
function digestOf(lines: readonly ObjectLines[]): string {
  const digest = createHash("sha256");
  for (const { pieces } of lines) for (const piece of pieces) digest.update(piece);
  return digest.digest("hex");
}

/** The check of a sink of objects; closes the store. */
export async function probeObjects(
  { name, signal }: SinkContext<unknown>,
  store: ObjectStore,
  prefix: string,
): Promise<readonly string[]> {
  try {
    await store.greet(signal);
    return await store.probe(`${prefix}.tidemark-check-${name}`, signal);
  } finally {
    await store.close();
  }
}
