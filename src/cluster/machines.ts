import { randomUUID } from "node:crypto";
import type { ConnectKafka, KafkaClient, KafkaProducer } from "../core/kafka.ts";
import { withoutLostLanes } from "./owners.ts";
import { readPartition } from "./read-partition.ts";
import { topicsOf } from "./topic-names.ts";

/** One lane as its machine last reported it. */
export interface LaneSummary {
  readonly lane: number;
  readonly state: string;
  readonly sinceMs: number;
  /** Records replayed so far, or at the last opening. */
  readonly records: number;
  /** Events that the slowest sink has not delivered. */
  readonly behindEvents: number;
  /** Absent in summaries of earlier versions. */
  readonly organizations?: number | undefined;
  readonly events?: number | undefined;
  readonly deadLetters?: number | undefined;
  readonly reason?: string | undefined;
}

/** A machine as it last reported itself. */
export interface MachineSummary {
  readonly machine: string;
  readonly version: string;
  readonly atMs: number;
  /** Differs between two processes of one name. Absent in summaries of earlier versions. */
  readonly instance?: string | undefined;
  /** The digest of its accounts, sinks and imports (C15). Absent in summaries of earlier versions. */
  readonly config?: string | undefined;
  /** Where its page is, if it has one. */
  readonly url?: string | undefined;
  readonly alarms: readonly { readonly kind: string; readonly subject: string; readonly message: string }[];
  readonly lanes: readonly LaneSummary[];
}

/** A machine is gone after this time without a report. */
const GONE_MS = 30_000;

/**
 * The newest summary of every machine, kept in a compacted topic. The broker's clock says how old a summary is, because
 * the clocks of two machines may differ. A machine learns from its own summaries how far its clock is off.
 */
export function createMachineBoard(name: string, connect: ConnectKafka) {
  const topic = topicsOf(name).machines;
  const known = new Map<string, Reported>();
  const instance = randomUUID();
  /** Set from the moment that a summary of this process was read. */
  let isRead = false;
  let rivalMs = Number.NEGATIVE_INFINITY;
  let own: { readonly machine: string; readonly sentMs: number } | undefined;
  /** How far the broker's clock is ahead of this one. */
  let aheadMs = 0;
  let link: KafkaClient | undefined;
  let producer: KafkaProducer | undefined;
  let next = 0;

  async function connected(signal: AbortSignal): Promise<{ link: KafkaClient; producer: KafkaProducer }> {
    link ??= await connect(signal);
    producer ??= await link.producer();
    return { link, producer };
  }

  async function end(): Promise<void> {
    const [oldLink, oldProducer] = [link, producer];
    link = undefined;
    producer = undefined;
    oldLink?.end();
    await oldProducer?.close().catch(() => {});
  }

  /** Older summaries under the own name are of an earlier process; later ones are of another one that runs now. */
  function noteRival(key: string, summary: MachineSummary | null): void {
    if (key !== own?.machine || summary === null) return;
    if (summary.instance === instance) isRead = true;
    else if (isRead) rivalMs = performance.now();
  }

  const LIMIT_MS = 15_000;
  return {
    /** Publishes a report of this machine; null: it is gone. */
    async publish(machine: string, summary: MachineSummary | null, signal: AbortSignal): Promise<void> {
      try {
        const { producer: to, link: over } = await connected(signal);
        const value = summary === null ? null : Buffer.from(JSON.stringify({ ...summary, instance }));
        own = { machine, sentMs: Date.now() };
        const report = await over.encode({ topic, partition: 0 }, [{ key: machine, value }], own.sentMs);
        const refused = await over.within(LIMIT_MS, to.produce([report]));
        if (refused.length > 0) throw new Error(`${topic} refuses the report of ${machine} as too large.`);
      } catch (error) {
        await end();
        throw error;
      }
    },
    /** Reads the reports since the last call. */
    async refresh(signal: AbortSignal): Promise<void> {
      try {
        const { link: over } = await connected(signal);
        for await (const slice of readPartition(over, topic, 0, next, signal)) {
          for (const { key, value, offset, timeMs } of slice) {
            const summary = value && (JSON.parse(Buffer.from(value).toString()) as MachineSummary);
            if (summary === null) known.delete(key);
            else known.set(key, { summary, timeMs });
            noteRival(key, summary);
            if (key === own?.machine) aheadMs = timeMs - own.sentMs;
            // A command reports nothing: it learns only that its clock is behind.
            else if (own === undefined) aheadMs = Math.max(aheadMs, timeMs - Date.now());
            next = offset + 1;
          }
        }
      } catch (error) {
        await end();
        throw error;
      }
    },
    /** Another process has lately reported under this machine's name: each hides the other's report. */
    hasRival: (): boolean => performance.now() - rivalMs < GONE_MS,
    /** Machines with a recent report, by name. A lane runs on one of them at most. */
    list: (nowMs: number): readonly MachineSummary[] =>
      withoutLostLanes(
        [...known.values()]
          .filter(({ timeMs }) => nowMs + aheadMs - timeMs < GONE_MS)
          .map((reported) => byOwnClock(reported, aheadMs))
          .toSorted((a, b) => (a.machine < b.machine ? -1 : 1)),
      ),
    end,
  };
}

interface Reported {
  readonly summary: MachineSummary;
  /** By the clock of the broker. */
  readonly timeMs: number;
}

/** The summary with the times of this machine's clock. */
function byOwnClock({ summary, timeMs }: Reported, aheadMs: number): MachineSummary {
  const atMs = timeMs - aheadMs;
  const shiftMs = atMs - summary.atMs;
  return {
    ...summary,
    atMs,
    lanes: summary.lanes.map((lane) => ({ ...lane, sinceMs: lane.sinceMs + shiftMs })),
  };
}

export type MachineBoard = ReturnType<typeof createMachineBoard>;
