import type { JournalEvent } from "./event.ts";
import type { JournalPage } from "./journal.ts";

/** One way in which events differ from the documentation. Never contains values of events. */
export interface DriftRow {
  /** The events' own `service`; "(others)" in the rows that count everything beyond the row limit. */
  readonly service: string;
  readonly kind: "event_type" | "field" | "type" | "class";
  /** The unknown event type, or the path of the field: `changes[].reason`. "*" replaces names that look like data. */
  readonly path: string;
  /** For kind `type`: expected and actual type, such as `string, not number`; otherwise "". */
  readonly detail: string;
  readonly firstSeenMs: number;
  readonly lastSeenMs: number;
  /** Total number of events. A stored row is replaced, not added to. */
  readonly count: number;
}

/** Counts drift in bounded memory. Never throws, whatever an event contains. */
export interface Drift {
  /** Call it once per event. */
  observe(event: JournalEvent): void;
  /** The same for the events of a page from `from` to before `to`, much faster. */
  observePage(page: JournalPage, from: number, to: number): void;
  /** The rows that changed since the last call. Their key is service, kind, path and detail. */
  flush(): readonly DriftRow[];
  /** Loads stored rows, so that counting continues from them. Call it before the first event. */
  load(rows: readonly DriftRow[]): void;
  /** Every row, the most frequent first. */
  rows(): readonly DriftRow[];
}
