import type { JournalEvent } from "../../core/event.ts";
import type { Format } from "../../core/format.ts";
import type { JournalPage } from "../../core/journal.ts";
import type { EncodedSlice, Encoder } from "../../core/page-slice.ts";

/*
 * Encodes large pages in another thread, slice by slice. Delivery asks for the slice that it needs next; a few more
 * are ordered at once, so that the thread works while this one writes. `encode` then returns bytes that are ready. An
 * event of a small page, or one that the thread could not encode, is encoded here.
 */

/** Half a megabyte of usual events: some milliseconds of work. */
const SLICE_EVENTS = 500;
/** Slices that are ordered before they are needed, with the one that is needed now. */
const SLICES_MAX = 3;
/** Below this the way to the thread and back costs more than it saves. */
const EVENTS_MIN = 200;

interface Slice {
  readonly page: number;
  readonly from: number;
  readonly to: number;
  /** Never rejects: without a result, the events are encoded here. */
  readonly done: Promise<void>;
  encoded?: EncodedSlice | undefined;
  /** Batches may end inside a slice; wrong recipes are reported once. */
  isReported: boolean;
}

export interface AheadOptions {
  readonly encoder: Encoder;
  readonly name: string;
  readonly options: unknown;
  /** Makes the format that encodes here; called when it is first needed. */
  inline(): Format;
  onMismatch(event: JournalEvent): void;
}

/** A format for one reader of one journal: its slices are found by the number of their page. */
export function encodedAhead(format: Format, { encoder, inline, ...own }: AheadOptions): Format {
  let slices: Slice[] = [];
  let here: Format | undefined;

  function order(page: JournalPage, from: number, to: number): Slice {
    const { name, options } = own;
    const ordered = encoder.encode({ format: name, options, slice: page.slice!(from, to) });
    const slice: Slice = {
      page: page.number,
      from,
      to,
      isReported: false,
      done: ordered.then(
        (encoded) => {
          slice.encoded = encoded;
        },
        () => {},
      ),
    };
    return slice;
  }

  function madeAhead({ page, index }: JournalEvent): Uint8Array | undefined {
    const slice = slices[0];
    if (slice?.encoded === undefined || slice.page !== page || index < slice.from || index >= slice.to)
      return undefined;
    const { bytes, ends } = slice.encoded;
    const at = index - slice.from;
    const end = ends[at]!;
    if (end < 0) return undefined;
    const before = at === 0 ? 0 : ends[at - 1]!;
    return bytes.subarray(before < 0 ? ~before : before, end);
  }

  function formatHere(): Format {
    here ??= inline();
    return here;
  }

  function encode(event: JournalEvent): Uint8Array | string {
    const made = madeAhead(event);
    if (made !== undefined) return made;
    return formatHere().encodeShared?.(event) ?? formatHere().encode(event);
  }

  return {
    ...format,
    encode(event) {
      const encoded = encode(event);
      return typeof encoded === "string" ? encoded : new Uint8Array(encoded);
    },
    encodeShared: encode,
    encodeMany: (page, from, to) => formatHere().encodeMany?.(page, from, to),
    async encodeAhead(page, from, to) {
      if (page.slice === undefined || page.count < EVENTS_MIN) return undefined;
      slices = slices.filter((slice) => slice.page === page.number && slice.to > from);
      if (slices.length > 0 && slices[0]!.from > from) slices = [];
      for (let next = slices.at(-1)?.to ?? from; slices.length < SLICES_MAX && next < to; ) {
        const end = Math.min(to, next + SLICE_EVENTS);
        slices.push(order(page, next, end));
        next = end;
      }
      const first = slices[0];
      if (first === undefined) return undefined;
      await first.done;
      if (first.encoded === undefined) return undefined;
      if (!first.isReported) for (const index of first.encoded.mismatched) own.onMismatch(page.event(index));
      first.isReported = true;
      return Math.min(first.to, to);
    },
  };
}
