/*
 * Reading an archive that is closed: its parts, the lines of a part, the events of a line, one event by its place,
 * and the proof of one event. src/archive implements it over a store; search builds on it.
 */
export interface ArchiveReader {
  /** For messages: `/var/archive`, `s3://bucket/prefix`. */
  readonly place: string;
  /** The parts that have files now, in the order of the log. Reads the log anew with each call. */
  parts(): Promise<readonly ArchivedPart[]>;
  /** The lines of a part, in the order of its data file; lines that were pruned or erased are left out. */
  lines(part: ArchivedPart): Promise<readonly ArchivedLine[]>;
  /** The events of a line in their order: time in nanoseconds, then identity. One frame is in memory at a time. */
  events(part: ArchivedPart, line: ArchivedLine): AsyncIterable<ArchivedEvent>;
  /** The bytes of one event, with one ranged read; undefined when its part was rewritten or removed since. */
  read(place: EventPlace): Promise<Buffer | undefined>;
  /** A self-contained proof, as `archive verify-proof` takes it; undefined as above. */
  prove(place: EventPlace): Promise<object | undefined>;
}

export interface ArchivedPart {
  /** The index of the log entry that closed the part; it never changes. */
  readonly index: number;
  readonly kind: "day" | "late" | "undated";
  /** As 2026-11-15; for additions the day of arrival. */
  readonly day: string;
  readonly part: string;
  /** Changes when the part is rewritten by an erasure or pruning: then everything about it is read again. */
  readonly sha256: string;
  readonly lines: number;
  readonly events: number;
  readonly rawBytes: number;
}

export interface ArchivedLine {
  /** Its number in the manifest. */
  readonly number: number;
  readonly organization: string;
  readonly accounts: readonly string[];
  readonly events: number;
  readonly erased: number;
  /** Timestamps as served; null without events. */
  readonly first: string | null;
  readonly last: string | null;
  readonly state: "complete" | "unchecked" | "differs" | "missing" | "addition";
  readonly missing: readonly { readonly from: string; readonly to: string; readonly reason: string }[];
}

export interface ArchivedEvent {
  readonly place: EventPlace;
  /** The exact bytes, valid until the next event is taken. Erased events are left out. */
  readonly bytes: Buffer;
}

/** Where an event is. All numbers, so that an index can keep them as columns. */
export interface EventPlace {
  /** `index` of its part. */
  readonly part: number;
  /** `number` of its line. */
  readonly line: number;
  /** Its number in the line. */
  readonly event: number;
  /** The frame in the data file: offset and stored length. */
  readonly frameFrom: number;
  readonly frameBytes: number;
  /** The event in the decompressed frame: offset and length. */
  readonly at: number;
  readonly length: number;
}
