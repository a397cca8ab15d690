import type { JournalEvent } from "../../core/event.ts";
import type { Describe } from "../../core/meaning.ts";
import type { Search } from "../engine/search.ts";
import type { Hit } from "../find/fetch.ts";

/** What the detail of an event says beyond its bytes. */
export interface EventFacts {
  ocsf(event: JournalEvent): string;
  /** Where it was delivered. */
  journey(event: JournalEvent): readonly Delivered[];
  /** The proof that it is in the archive; undefined while it is in the journal. */
  prove(hit: Hit): Promise<unknown>;
}

export interface Delivered {
  readonly sink: string;
  readonly state: "delivered" | "waiting" | "left_out" | "dead_letter" | "unknown";
  readonly note: string;
}

export interface ServiceOptions {
  readonly search: Search;
  readonly describe: Describe;
  readonly facts: EventFacts;
  readonly scanMax: number;
  /** Cursors of an earlier process stay valid with the same secret. */
  readonly cursorSecret: string;
  nowMs(): number;
}
