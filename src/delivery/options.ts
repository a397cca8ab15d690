import type { Alarms } from "../core/alarms.ts";
import type { Clock } from "../core/clock.ts";
import type { Format, FormatSettings } from "../core/format.ts";
import type { JournalReader } from "../core/journal.ts";
import type { Log } from "../core/log.ts";
import type { Metrics } from "../core/metrics.ts";
import type { Position } from "../core/position.ts";
import type { SinkDefinition } from "../core/sink.ts";
import type { Wake } from "../core/wake.ts";
import type { EncodedMemory } from "./encoded-memory.ts";
import type { SinkRoute, Wants } from "./filter.ts";
import type { DeliveryState } from "./health.ts";

/** What a delivery needs, and what it reports. */
export interface DeliveryOptions {
  readonly name: string;
  readonly definition: SinkDefinition;
  readonly config: unknown;
  readonly format: Format;
  /** What `format` is made of, and what makes others. A batch that is begun keeps its format. */
  readonly formatting?:
    | { readonly settings: FormatSettings; formatOf(settings: FormatSettings): Format }
    | undefined;
  readonly reader: JournalReader;
  readonly journal: string;
  /** Journals that this one continues, all of them delivered to their ends. */
  readonly earlierJournals?: ReadonlySet<string> | undefined;
  readonly wants: Wants;
  /** What `wants` is made of. A batch that is begun keeps it. */
  readonly route?: SinkRoute | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly alarms: Alarms;
  readonly metrics: Metrics;
  readonly stdout: NodeJS.WritableStream;
  readonly wake: Wake;
  /** The journal's end, where a sink continues that is to skip everything. */
  end(): Position;
  /** True while the state was put in place of another one and the reader has committed nothing since (R20). */
  isAsRestored?(): boolean;
  /** Fills the memory of encoded events with a pattern when their batch is released; for tests. */
  readonly poisonMemory?: boolean | undefined;
  /** Shared by all deliveries of the program. Left out: this one has its own. */
  readonly encodedMemory?: EncodedMemory | undefined;
  /** True while nothing more will come: an unfilled batch need not wait. */
  draining(): boolean;
}

export interface DeliveryStatus {
  readonly name: string;
  readonly type: string;
  readonly state: DeliveryState;
  readonly sinceMs: number;
  readonly reason: string | null;
  readonly remedy: string | null;
  readonly position: Position;
  readonly sentEvents: number;
  readonly deadLetters: number;
  readonly lastWriteMs: number | null;
}
