import type { BufferPool } from "../../core/buffer-pool.ts";
import type { LaneOutcome } from "../../core/lane-requests.ts";
import type { Metrics } from "../../core/metrics.ts";
import type { SinkDefinition } from "../../core/sink.ts";
import type { ImportSource, StartAnswer } from "../../imports/source.ts";
import type { State } from "../../journal/database.ts";
import type { Pace } from "../../polling/limits/pace.ts";

/** Parts that a lane shares with the other lanes of its machine, and its connection to the changelog. */
export interface LaneParts {
  openState(file: string): Promise<State>;
  /** A page of the copy is damaged: Kafka may have it whole. */
  damagedPage(what: string): void;
  readonly memory: BufferPool;
  readonly measured: Metrics;
  /** One pace for each account of the machine. */
  paceOf(account: string): Pace;
  /** The list of an account's organizations, asked for once for all lanes. */
  discover(account: string, look: () => Promise<Discovered>): Promise<Discovered>;
  /** Archives of a machine close days one after the other, which bounds the memory and disk for it. */
  closeInTurn<Result>(work: () => Promise<Result>, signal: AbortSignal): Promise<Result>;
  /** Sends the outcome of a request to the machine or command that asked (C3). */
  answer(origin: string, outcome: LaneOutcome): Promise<void>;
  /** Throws when the lane may belong to another machine by now (C9). */
  beforeEffect(): void;
}

/** The parts that are the same for all lanes of a machine. */
export type SharedLaneParts = Omit<LaneParts, "openState" | "damagedPage" | "beforeEffect" | "answer">;

export type Discovered = readonly { readonly id: string; readonly name: string }[] | null;

/** A sink that begins no write unless the lane is known to be ours (C9). */
export function guardedSink(definition: SinkDefinition, beforeEffect: () => void): SinkDefinition {
  return {
    ...definition,
    async open(context) {
      beforeEffect();
      const sink = await definition.open(context);
      const write: typeof sink.write = async (batch, signal) => {
        beforeEffect();
        return sink.write(batch, signal);
      };
      return new Proxy(sink, {
        get: (target, name) => {
          if (name === "write") return write;
          const value = Reflect.get(target, name, target) as unknown;
          return typeof value === "function" ? value.bind(target) : value;
        },
      });
    },
  };
}

/** Calls to the service that start something are put off while the lane is not known to be ours (C9). */
export function guardedImports(source: ImportSource, beforeEffect: () => void): ImportSource {
  const puttingOff =
    <Values extends unknown[]>(start: (...values: Values) => Promise<StartAnswer>) =>
    async (...values: Values): Promise<StartAnswer> => {
      try {
        beforeEffect();
      } catch (error) {
        return { kind: "unavailable", reason: (error as Error).message };
      }
      return start(...values);
    };
  return {
    ...source,
    start: puttingOff(source.start.bind(source)),
    startWorkday: puttingOff(source.startWorkday.bind(source)),
    async activate(...values) {
      beforeEffect();
      return source.activate(...values);
    },
  };
}
