import { PassThrough } from "node:stream";
import { z } from "zod";
import { type Alarms, createAlarms } from "../../src/core/alarms.ts";
import type { JournalEvent } from "../../src/core/event.ts";
import type { Format } from "../../src/core/format.ts";
import type { Log } from "../../src/core/log.ts";
import { silentMetrics } from "../../src/core/metrics.ts";
import type { Position } from "../../src/core/position.ts";
import type {
  Batch,
  BatchLimits,
  Sink,
  SinkContext,
  SinkDefinition,
  SinkState,
} from "../../src/core/sink.ts";
import { createWake } from "../../src/core/wake.ts";
import { createDelivery, type Delivery } from "../../src/delivery/deliver.ts";
import type { EncodedMemory } from "../../src/delivery/encoded-memory.ts";
import { type JournalFixture, openFixture } from "../journal/support.ts";
import { createFakeClock, type FakeClock } from "../support/clock.ts";
import { rawFormat } from "../support/events.ts";
import { FETCHED_MS, pageOf } from "../support/pages.ts";

/** A destination in memory that does what a test tells it, write by write. */
export interface Destination {
  /** The bodies that it holds, in arrival order. */
  readonly held: string[];
  /** The position that the destination stores, where it stores one. */
  position: Position | undefined;
  /** The batches as they came, those that failed included. */
  readonly batches: Batch[];
  readonly opened: SinkContext<unknown>[];
  closed: number;
  /** How many calls are in it now, and were at the most. */
  inside: number;
  insideMax: number;
  /** Each is taken once, by one write. `store` takes the whole batch, or these records of it. */
  readonly script: ((
    batch: Batch,
    store: (indexes?: readonly number[]) => void,
    signal: AbortSignal,
  ) => unknown)[];
  /** As `script`, for opening. */
  readonly openScript: (() => unknown)[];
  readonly closeScript: (() => unknown)[];
  /** The behaviour of writes that the script does not cover. */
  otherwise: ((batch: Batch, store: (indexes?: readonly number[]) => void) => unknown) | undefined;
}

export interface HarnessOptions {
  readonly guarantee?: "exactly_once" | "at_least_once";
  readonly limits?: Partial<BatchLimits>;
  readonly boundsFirst?: boolean;
  readonly writesMax?: number | undefined;
  readonly encodedMemory?: EncodedMemory | undefined;
  readonly wants?: (event: JournalEvent) => boolean;
  readonly encode?: (event: JournalEvent) => string;
  readonly framed?: boolean;
  readonly format?: Format;
  readonly name?: string;
  readonly fixture?: JournalFixture;
  readonly draining?: boolean;
}

export interface Harness {
  readonly fixture: JournalFixture;
  readonly clock: FakeClock;
  readonly alarms: Alarms;
  readonly destination: Destination;
  readonly log: {
    readonly level: string;
    readonly sentence: string;
    readonly fields: Record<string, unknown>;
  }[];
  /** A delivery over the same destination and journal, as after a restart when called again. */
  start(): Promise<Delivery>;
  append(...args: Parameters<typeof pageOf>): Promise<unknown>;
  close(): Promise<void>;
}

export const never = new AbortController().signal;

export function createHarness(options: HarnessOptions = {}): Harness {
  const clock = createFakeClock(FETCHED_MS);
  const fixture = options.fixture ?? openFixture(clock);
  const lines: Harness["log"] = [];
  const log = recordingLog(lines as { level: string; sentence: string; fields: Record<string, unknown> }[]);
  const alarms = createAlarms(clock, log);
  const destination: Destination = {
    held: [],
    position: undefined,
    batches: [],
    opened: [],
    closed: 0,
    inside: 0,
    insideMax: 0,
    script: [],
    openScript: [],
    closeScript: [],
    otherwise: undefined,
  };
  const definition = definitionOf(destination, options);
  const name = options.name ?? "sink";
  const deliveries: Delivery[] = [];
  return {
    fixture,
    clock,
    alarms,
    destination,
    log: lines,
    async start() {
      const delivery = createDelivery({
        poisonMemory: true,
        encodedMemory: options.encodedMemory,
        name,
        definition,
        config: {},
        format: options.format ?? rawFormat,
        reader: await fixture.journal.reader(name),
        journal: fixture.journal.id,
        wants: options.wants ?? (() => true),
        clock,
        log,
        alarms,
        metrics: silentMetrics,
        stdout: new PassThrough(),
        wake: createWake(clock),
        end: () => fixture.journal.end(),
        draining: () => options.draining ?? false,
      });
      deliveries.push(delivery);
      return delivery;
    },
    append: (...args) => fixture.journal.append(pageOf(...args)),
    async close() {
      for (const delivery of deliveries) await delivery.close();
      if (options.fixture === undefined) fixture.close();
    },
  };
}

function definitionOf(destination: Destination, options: HarnessOptions): SinkDefinition {
  const { guarantee = "at_least_once", boundsFirst = false } = options;
  return {
    type: "memory",
    summary: "A destination in memory.",
    config: z.strictObject({}),
    defaultFormat: "raw",
    guarantee,
    promise: "What a test says.",
    boundsFirst,
    async open(context) {
      destination.opened.push(context);
      await destination.openScript.shift()?.();
      return sinkOf(destination, options, guarantee === "exactly_once");
    },
  };
}

function sinkOf(destination: Destination, options: HarnessOptions, keepsPosition: boolean): Sink {
  return {
    ...(keepsPosition ? { position: destination.position } : {}),
    ...(options.encode === undefined ? {} : { encode: options.encode }),
    ...(options.framed === undefined ? {} : { framed: options.framed }),
    ...(options.writesMax === undefined ? {} : { writesMax: options.writesMax }),
    limits: { recordsMax: 10, bytesMax: 1_000_000, ageMsMax: 0, ...options.limits },
    async write(batch, signal): Promise<SinkState | undefined> {
      destination.insideMax = Math.max(destination.insideMax, ++destination.inside);
      destination.batches.push(copyOf(batch));
      const store = (indexes?: readonly number[]) => {
        const records = indexes === undefined ? batch.records : indexes.map((index) => batch.records[index]!);
        destination.held.push(...records.map(({ body }) => Buffer.from(body).toString()));
        if (keepsPosition && indexes === undefined) destination.position = batch.to;
      };
      try {
        const act = destination.script.shift() ?? destination.otherwise;
        if (act === undefined) store();
        else await act(batch, store, signal);
        return { records: destination.held.length };
      } finally {
        destination.inside--;
      }
    },
    async close() {
      destination.closed++;
      await destination.closeScript.shift()?.();
    },
  };
}

/** A copy for the time after the write, when the batch's own bytes are gone. */
function copyOf({ records, from, to }: Batch): Batch {
  return {
    records: records.map((record) => ({
      event: record.event,
      body: Buffer.from(record.body),
      size: record.size,
    })),
    from,
    to,
  };
}

function recordingLog(lines: { level: string; sentence: string; fields: Record<string, unknown> }[]): Log {
  const at = (level: string) => (fields: object, sentence: string) =>
    void lines.push({ level, sentence, fields: fields as Record<string, unknown> });
  const log: Log = {
    error: at("error"),
    warn: at("warn"),
    info: at("info"),
    debug: at("debug"),
    child: () => log,
  };
  return log;
}

/** Steps until there is nothing to do at this time; gives the number of steps. */
export async function stepUntilIdle(delivery: Delivery, stepsMax = 1000): Promise<number> {
  for (let steps = 1; steps <= stepsMax; steps++) if ((await delivery.step(never)) === "idle") return steps;
  throw new Error("It goes on and on.");
}

/** Lets time pass until nothing is left, as the loop would. */
export async function deliverAll(harness: Harness, delivery: Delivery, roundsMax = 200): Promise<void> {
  for (let round = 0; round < roundsMax; round++) {
    await stepUntilIdle(delivery);
    const { page, event } = harness.fixture.journal.end();
    const { position } = delivery.status();
    if (position.page === page && position.event === event) return;
    harness.clock.advance(60_000);
  }
  throw new Error(`It does not come to an end: ${JSON.stringify(delivery.status())}`);
}
