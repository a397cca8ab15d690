import type { JournalEvent } from "./event.ts";
import type { Described } from "./meaning.ts";

/** One way in which events differ from what is documented. Never holds a value of an event. */
export interface DriftRow {
  /** As the events call it; "(others)" in the rows that count what found no row of its own. */
  readonly service: string;
  readonly kind: "event_type" | "field" | "type";
  /** The unknown event type, or the path of the field: `changes[].reason`. "*" stands for names that look like data. */
  readonly path: string;
  /** For a type: what was expected and what came, as in `string, not number`; else "". */
  readonly detail: string;
  readonly firstSeenMs: number;
  readonly lastSeenMs: number;
  /** The number of events, counted since ever: rows replace what is stored of them. */
  readonly count: number;
}

/** Counts drift in bounded memory. Never throws for an event, whatever it holds. */
export interface Drift {
  /** Give it each event once. `described` saves parsing again; its event must be as it was parsed. */
  observe(event: JournalEvent, described?: Described): void;
  /** The rows that changed since the last call, to be stored by service, kind, path and detail. */
  flush(): readonly DriftRow[];
  /** Rows that were stored before; counting goes on from them. Call it before the first event. */
  load(rows: readonly DriftRow[]): void;
  /** Every row, the most frequent first. */
  rows(): readonly DriftRow[];
}
