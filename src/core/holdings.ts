import type { JournalEvent } from "./event.ts";

/*
 * Everything that is held, as search reads it: closed parts of an archive, and pages of the journal whose events
 * are not closed yet. An event is in exactly one of the two in every snapshot (A28).
 */
export interface Holdings {
  /** For messages: where the archive is. */
  readonly place: string;
  snapshot(): Promise<HoldingsSnapshot>;
  /** Every frame of a part in order, after the stored bytes of its organization matched the manifest's hash. */
  frames(part: HeldPart, signal: AbortSignal): AsyncIterable<HeldFrame>;
  /** Bytes of a part's data file: whole zstd frames. Undefined when the file is gone or ends too early. */
  stored(part: HeldPart, offset: number, length: number): Promise<Buffer | undefined>;
  /** Undefined when the page was trimmed: its events are closed by now. */
  page(number: number): HeldPageContent | undefined;
  /** As in `HeldPage`, also of a page that is closed or trimmed; undefined when the journal does not know it. */
  pageKey(number: number): string | undefined;
  close(): Promise<void>;
}

export interface HoldingsSnapshot {
  readonly parts: readonly HeldPart[];
  readonly pages: readonly HeldPage[];
  /** Changes when events of open pages are erased. */
  readonly erasures: string;
}

export interface HeldPart {
  /** The part's entry in the log. */
  readonly number: number;
  /** Changes when the part's files are replaced. */
  readonly key: string;
  readonly kind: "day" | "late" | "undated";
  /** As 2026-11-15: the day of its events, or the day of arrival of an addition. */
  readonly day: string;
  readonly events: number;
  readonly data: string;
  readonly manifest: string;
  readonly storedBytes: number;
  readonly rawBytes: number;
}

export interface HeldFrame {
  readonly organization: string;
  /** Where the frame begins in the data file, and its length there. */
  readonly offset: number;
  readonly storedBytes: number;
  readonly content: Buffer;
  /** Events of the frame, with erased ones. */
  readonly events: number;
  /** Where each event is in the content; erased ones are left out. */
  readonly slices: readonly { readonly row: number; readonly start: number; readonly length: number }[];
}

export interface HeldPage {
  readonly number: number;
  readonly events: number;
  /** Identifies the page's content. */
  readonly key: string;
  /** The organizations and days of the page that are not closed; null where all of it is open. */
  readonly open: readonly { readonly organization: string; readonly day: string }[] | null;
}

export interface HeldPageContent {
  readonly count: number;
  event(index: number): JournalEvent;
  organization(event: JournalEvent): string;
  /** The UTC day under which the event will be closed; empty for events without a usable time. */
  day(event: JournalEvent): string;
  isErased(event: JournalEvent): boolean;
}
