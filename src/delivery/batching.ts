import { setImmediate } from "node:timers/promises";
import { DamagedPageError } from "../core/errors.ts";
import type { JournalEvent } from "../core/event.ts";
import type { JournalPage, Lines } from "../core/journal.ts";
import { FULL_PAGE_EVENTS } from "../core/page-gate.ts";
import type { PageLease } from "../core/page-lease.ts";
import type { SharedLines } from "../core/page-slice.ts";
import type { Position } from "../core/position.ts";
import type { SinkRecord, Stretch } from "../core/sink.ts";
import { createEncodedOutput, type EncodedOutput } from "./encoded-lines.ts";
import { everything } from "./filter.ts";
import type { Formed, Forming } from "./forming.ts";
import { type Misfit, notEncoded, tooLargeAlone } from "./misfits.ts";
import { type LeasedBatch, LinesBatch, recordOf, recordsIn } from "./records.ts";

/** How many events are passed over in one turn before the position is committed; a batch that was begun keeps its end. */
const PASSED_OVER_MAX = 50_000;
/** How many misfits are held in memory before they become dead letters. */
const MISFITS_MAX = 1000;
/** Others get their turn after so many events or so much time: 250 take 2 ms by recipes, and far more where these are learned. */
const TURN_EVENTS_MAX = 250;
const TURN_MS = 8;
/**
 * A few live events do not wait for the write of a page of history behind them. For a destination that collects events
 * for longer than a moment, larger batches are worth more.
 */
const FEW_EVENTS = FULL_PAGE_EVENTS / 10;
const MANY_EVENTS = FULL_PAGE_EVENTS / 2;
const PROMPT_MS_MAX = 100;
/** So many events are encoded one by one between two looks at the time. */
const SLICE_EVENTS = 25;

/** Takes events from the journal until the batch is full by number or bytes, measured after encoding. */
export async function formBatch(forming: Forming): Promise<Formed> {
  const { reader, from } = forming;
  const isExact = isExactly(forming);
  const taken = new Taken(forming);
  let to = from;
  const done = (full: boolean): Formed => ({ ...taken.formed(from, to), to, full });

  try {
    for (;;) {
      const page: JournalPage | null = await reader.read(to);
      if (page === null) return done(false);
      try {
        // Better two batches than one that ends inside a page: they hold less in memory.
        const isTooMuch = taken.count > 0 && taken.count + page.count > forming.recordsMax;
        if (isTooMuch && page.count <= forming.recordsMax && !isExact) return done(true);
        if (taken.isBetterAlone(page)) return done(true);
        const next = await taken.takeFrom(page);
        if (next > page.first) to = page.after(next - 1);
        if (forming.bound !== undefined && isPast(to.page, to.event, forming.bound)) return done(true);
        if (taken.isFull || next < page.first + page.count) return done(true);
        if (taken.count >= forming.recordsMax && !isExact) return done(true);
      } finally {
        page.lease.release();
      }
    }
  } catch (error) {
    // What is before a damaged page is delivered first; the next batch begins with it.
    if (error instanceof DamagedPageError && to !== from && !isExact) return done(true);
    taken.release();
    throw error;
  }
}

type Writable<Type> = { -readonly [Key in keyof Type]: Type[Key] };

/** The contents of a batch so far: stretches of lines; or records, once an event is no line and there are no chunks. */
class Taken {
  readonly misfits: Misfit[] = [];
  oldestMs = Number.POSITIVE_INFINITY;
  /** Enough was looked at for one turn, whatever was taken of it. */
  isFull = false;
  count = 0;
  readonly #leases: PageLease[] = [];
  readonly #misfitLeases: PageLease[] = [];
  readonly #stretches: Writable<Stretch>[] = [];
  readonly #output: EncodedOutput | undefined;
  #records: SinkRecord[] | undefined;
  #bytes: number;
  #passedOver = 0;
  readonly #forming: Forming;
  readonly #overheadBytes: number;
  readonly #bodyBytesMax: number;

  constructor(forming: Forming) {
    const { limits } = forming;
    this.#forming = forming;
    this.#output = forming.chunks && createEncodedOutput(forming.chunks, this.#stretches);
    this.#overheadBytes = limits.recordOverheadBytes ?? 0;
    this.#bytes = limits.batchOverheadBytes ?? 0;
    // A body must keep to its own limit, and fit alone into a batch with all that frames it.
    this.#bodyBytesMax = Math.min(
      limits.recordBytesMax ?? Number.POSITIVE_INFINITY,
      limits.bytesMax - this.#bytes - this.#overheadBytes,
    );
  }

  formed(from: Position, to: Position): Omit<Formed, "to" | "full"> {
    const { misfits, oldestMs } = this;
    return { batch: this.#batch(from, to), misfits, oldestMs, misfitLeases: this.#misfitLeases };
  }

  #batch(from: Position, to: Position): LeasedBatch | null {
    if (this.count === 0) return null;
    const leases = [...this.#leases, ...(this.#output?.leases ?? [])];
    return this.#records === undefined
      ? new LinesBatch(this.#stretches, from, to, leases)
      : { records: this.#records, from, to, leases };
  }

  release(): void {
    const chunks = this.#output?.leases ?? [];
    for (const lease of [...this.#leases, ...chunks, ...this.#misfitLeases]) lease.release();
  }

  /** As many of the page's events as belong to the batch; gives the index after them. Retains what it uses. */
  async takeFrom(page: JournalPage): Promise<number> {
    const { count } = this;
    const misfits = this.misfits.length;
    const next = await this.#takeInSlices(page);
    if (this.count > count) this.#leases.push(page.lease.retain());
    if (this.misfits.length > misfits) this.#misfitLeases.push(page.lease.retain());
    return next;
  }

  /** Encoding a large page takes long, so the event loop runs between slices of it. */
  async #takeInSlices(page: JournalPage): Promise<number> {
    const forming = this.#forming;
    const lines = forming.keepsBytes && this.#records === undefined ? page.lines : undefined;
    if (lines === undefined && this.#output === undefined) this.#records ??= recordsIn(this.#stretches);
    const end = page.first + page.count;
    if (lines !== undefined && forming.bound === undefined && forming.wants === everything)
      if (this.#takesAll(lines, page)) return end;
    const encodeAhead = lines === undefined && forming.wants === everything ? forming.encodeAhead : undefined;
    let turn = { from: page.first, beganMs: performance.now() };
    for (let from = page.first; ; ) {
      const made = encodeAhead && (await encodeAhead(page, from, end));
      const isTogether = made === undefined && lines === undefined;
      const many = isTogether ? this.#takeMany(page, from, Math.min(end, from + SLICE_EVENTS)) : from;
      const to = many > from ? many : (made ?? Math.min(end, from + SLICE_EVENTS));
      from = many > from ? many : this.#takeSlice(page, lines, from, to);
      this.isFull ||= this.#isEnough();
      if (from < to || from === end || this.isFull) return from;
      if (from - turn.from < TURN_EVENTS_MAX && performance.now() - turn.beganMs < TURN_MS) continue;
      await setImmediate();
      turn = { from, beganMs: performance.now() };
    }
  }

  /** Whether the batch may end here because all sinks together hold much memory. */
  #isEnough(): boolean {
    const { limits, chunks, bound } = this.#forming;
    if (limits.bytesEnough === undefined || chunks === undefined || bound !== undefined) return false;
    return this.#stretches.length > 0 && this.#bytes >= limits.bytesEnough && !chunks.hasRoom();
  }

  /** Encodes events together, as many as belong to the batch; gives the index after them. */
  #takeMany(page: JournalPage, from: number, end: number): number {
    const { encodeMany, wants, bound, recordsMax } = this.#forming;
    if (encodeMany === undefined || this.#output === undefined) return from;
    if (wants !== everything || bound !== undefined) return from;
    const to = Math.min(end, from + recordsMax - this.count);
    const many = to > from ? encodeMany(page, from, to) : undefined;
    if (many === undefined) return from;
    const count = this.#fitting(many);
    if (count === 0) return from;
    const ends = many.ends.subarray(0, count);
    const length = ends[count - 1]!;
    this.#output.addLines(page, from, { bytes: many.bytes.subarray(0, length), ends });
    this.#bytes += length - count + count * this.#overheadBytes;
    this.count += count;
    this.oldestMs = Math.min(this.oldestMs, page.event(from).fetchedAtMs);
    return from + count;
  }

  /** How many of these lines fit into the batch, one behind the other. */
  #fitting({ bytes, ends }: SharedLines): number {
    const room = this.#forming.limits.bytesMax - this.#bytes;
    const isAll = bytes.length + ends.length * this.#overheadBytes <= Math.min(room, this.#bodyBytesMax);
    if (isAll) return ends.length;
    let start = 0;
    for (let at = 0; at < ends.length; at++) {
      const end = ends[at]!;
      if (end - start - 1 > this.#bodyBytesMax) return at;
      if (end + (at + 1) * (this.#overheadBytes - 1) > room) return at;
      start = end;
    }
    return ends.length;
  }

  /** Gives the index after the last event that belongs to the batch. */
  #takeSlice(page: JournalPage, lines: Lines | undefined, from: number, to: number): number {
    const forming = this.#forming;
    const { bound } = forming;
    let next = from;
    for (; next < to && !this.isFull; next++) {
      if (bound !== undefined && isPast(page.number, next, bound)) break;
      const event = page.event(next);
      if (!forming.wants(event, page.isOwn)) {
        this.isFull = ++this.#passedOver >= PASSED_OVER_MAX && !isExactly(forming);
        continue;
      }
      const body = lines === undefined ? bodyOf(forming, event) : undefined;
      if (body instanceof Error) {
        this.#bury(notEncoded(page.event(next), body));
        continue;
      }
      const size = sizeOf(event, body);
      // A batch that was begun may be stored already, with events that a later limit would keep out.
      if (size > this.#bodyBytesMax && !isExactly(forming)) {
        this.#bury(tooLargeAlone(page.event(next), size, this.#bodyBytesMax, forming.limits.limitedBy));
        continue;
      }
      if (!this.#makesRoom(size)) break;
      this.oldestMs = Math.min(this.oldestMs, event.fetchedAtMs);
      if (body === undefined) this.#addLine(lines!, next);
      else if (this.#output !== undefined) this.#output.add(page, next, body, size);
      else this.#records!.push(recordOf(event, body, size));
    }
    return next;
  }

  /** Whether a page is left to the next batch. */
  isBetterAlone(page: JournalPage): boolean {
    const { bound, limits } = this.#forming;
    const isPrompt = bound === undefined && limits.ageMsMax <= PROMPT_MS_MAX;
    if (isPrompt && this.count > 0 && this.count < FEW_EVENTS && page.count >= MANY_EVENTS) return true;
    return this.#fitsWhole(page);
  }

  /** Whether lines of a page fit whole into a batch of their own and not into this one. */
  #fitsWhole(page: JournalPage): boolean {
    const { keepsBytes, bound, wants, limits } = this.#forming;
    if (this.count === 0 || this.#records !== undefined || !keepsBytes) return false;
    if (bound !== undefined || wants !== everything || page.lines === undefined) return false;
    const bytes = page.lines.size(page.first, page.first + page.count) + page.count * this.#overheadBytes;
    return this.#bytes + bytes - page.count > limits.bytesMax && bytes <= limits.bytesMax;
  }

  /** Takes a page that fits whole without a look at its events; false when it does not. */
  #takesAll(lines: Lines, { first, count }: JournalPage): boolean {
    const { limits, recordsMax } = this.#forming;
    const lineBytes = lines.size(first, first + count);
    const bytes = this.#bytes + lineBytes - count + count * this.#overheadBytes;
    if (this.count + count > recordsMax || bytes > limits.bytesMax || lineBytes > this.#bodyBytesMax)
      return false;
    this.#bytes = bytes;
    this.count += count;
    this.oldestMs = Math.min(this.oldestMs, lines.fetchedAtMs);
    this.#stretches.push({ lines, from: first, to: first + count });
    return true;
  }

  /** False when the next event is the next batch's. */
  #makesRoom(size: number): boolean {
    const { limits, recordsMax } = this.#forming;
    const bytes = this.#bytes + size + this.#overheadBytes;
    const fits = this.count < recordsMax && bytes <= limits.bytesMax;
    if (this.count > 0 && !fits && !isExactly(this.#forming)) return false;
    this.#bytes = bytes;
    this.count++;
    return true;
  }

  #addLine(lines: Lines, index: number): void {
    const last = this.#stretches.at(-1);
    if (last?.lines === lines && last.to === index) last.to++;
    else this.#stretches.push({ lines, from: index, to: index + 1 });
  }

  #bury(misfit: Misfit): void {
    this.misfits.push(misfit);
    this.isFull = this.misfits.length >= MISFITS_MAX && !isExactly(this.#forming);
  }
}

/** A format that fails on an event has a defect; the event becomes a dead letter and the others go on. */
function bodyOf(forming: Forming, event: JournalEvent): Uint8Array | string | Error {
  if (forming.keepsBytes && event.isOneLine) return event.bytes;
  try {
    return forming.encode(event);
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

function sizeOf(event: JournalEvent, body: Uint8Array | string | undefined): number {
  if (body === undefined) return event.size;
  return typeof body === "string" ? Buffer.byteLength(body) : body.length;
}

function isExactly({ bound, isCut = false }: Forming): boolean {
  return bound !== undefined && !isCut;
}

function isPast(page: number, index: number, bound: Position): boolean {
  return page > bound.page || (page === bound.page && index >= bound.event);
}
