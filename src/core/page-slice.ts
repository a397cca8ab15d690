/**
 * What the walk over each event of a page found, for the recipe engines with the same seed; wasm/recipe/records.ts says
 * what that is.
 */
export interface EventRecords {
  readonly seed: string;
  readonly bytes: Uint8Array;
  /** Where each one begins, and where the last one ends. Some events have none: theirs are empty. */
  readonly places: Uint32Array;
  /** All that converters read of each event and do not copy, as a hash of two numbers; zeros where it is not known. */
  readonly answers: Int32Array;
}

/** The events of a page in place: the arrays are the page's own. */
export interface EventsInPlace {
  readonly bytes: Buffer;
  /** As those of a scanned page. */
  readonly columns: Int32Array;
  readonly timesMs: Float64Array;
  readonly runs: Uint8Array;
  /** Sixteen bytes an event. */
  readonly identities: Uint8Array;
  /** That of events that name none. */
  readonly organization: string | null;
  readonly records?: EventRecords | undefined;
}

/** Encoded events one behind the other, each with a line break. The next call overwrites them. */
export interface SharedLines {
  readonly bytes: Uint8Array;
  /** Where each of them ends. */
  readonly ends: Int32Array;
}

/** A copy of neighbouring events of a page that another thread can read. All arrays begin with the first of them. */
export interface PageSlice {
  readonly page: number;
  /** The index in the page of the first of them. */
  readonly first: number;
  readonly account: string;
  readonly organization: string | null;
  readonly provider: string | null;
  readonly fetchedMs: number;
  readonly hasLineBreaks: boolean;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly columns: Int32Array<ArrayBuffer>;
  readonly timesMs: Float64Array<ArrayBuffer>;
  readonly runs: Uint8Array<ArrayBuffer>;
  /** Sixteen bytes an event, where these were made already. */
  readonly identities?: Uint8Array<ArrayBuffer> | undefined;
  /** By index, the identities of events that share another's. */
  readonly twins: Readonly<Record<string, string>>;
}

/** Encodes events in another thread. */
export interface Encoder {
  /** Undefined: the thread failed, and the caller encodes the events itself. */
  encode(order: EncodeOrder): Promise<EncodedSlice | undefined>;
  close(): Promise<void>;
}

export interface EncodeOrder {
  readonly format: string;
  readonly options: unknown;
  readonly slice: PageSlice;
}

/** The encoded events one behind the other. */
export interface EncodedSlice {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Where each of them ends; the complement (~) for an event that the format failed on, which has no bytes. */
  readonly ends: Int32Array<ArrayBuffer>;
  /** The indexes in the page of events for which a recipe gave something else than the converter. */
  readonly mismatched: readonly number[];
}
