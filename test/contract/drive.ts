import { type Clock, systemClock } from "../../src/core/clock.ts";
import {
  type PausedError,
  RejectedEventsError,
  type Rejection,
  RetryableError,
  TooLargeError,
} from "../../src/core/errors.ts";
import type { JournalEvent } from "../../src/core/event.ts";
import type { Format } from "../../src/core/format.ts";
import { type Log, silentLog } from "../../src/core/log.ts";
import { comparePositions, type Position, startOf } from "../../src/core/position.ts";
import { Secret } from "../../src/core/secret.ts";
import type { Batch, Sink, SinkContext, SinkDefinition, SinkState } from "../../src/core/sink.ts";
import { makeBatch, positionAfter, positionBefore, rawFormat, TEST_JOURNAL } from "../support/events.ts";

/** A test's knowledge of one destination: how to reach it, as in a config file. */
export interface Target {
  readonly definition: SinkDefinition;
  /** As written in a config file; secrets as `{ env: NAME }`, with their values in `secrets`. */
  readonly config: Record<string, unknown>;
  readonly secrets?: Readonly<Record<string, string>>;
  readonly format?: Format;
  readonly name?: string;
  readonly clock?: Clock;
  readonly log?: Log;
  /** Another process has another one. */
  readonly memory?: Map<string, unknown>;
  readonly limited?: SinkContext<unknown>["limited"];
}

/** A reader's row in the journal. */
export interface Committed {
  readonly position: Position;
  readonly state: SinkState | undefined;
}

export const nothingCommitted: Committed = { position: startOf(TEST_JOURNAL), state: undefined };

/** Parses the config as the program does and opens the sink. */
export function openSink(target: Target, committed: Committed = nothingCommitted): Promise<Sink> {
  return target.definition.open(contextOf(target, committed));
}

/** The same as `check --online` does with a sink. */
export async function probeSink(
  target: Target,
  clock?: Clock,
  committed: Committed = nothingCommitted,
): Promise<readonly string[]> {
  return target.definition.probe!(contextOf(clock ? { ...target, clock } : target, committed));
}

function contextOf(target: Target, committed: Committed): SinkContext<unknown> {
  return {
    name: target.name ?? "test",
    config: parseConfig(target),
    format: target.format ?? rawFormat,
    journal: TEST_JOURNAL,
    position: committed.position,
    state: committed.state,
    clock: target.clock ?? systemClock,
    log: target.log ?? silentLog,
    signal: new AbortController().signal,
    memory: target.memory,
    limited: target.limited,
  };
}

export function parseConfig(target: Target): Record<string, unknown> {
  const config = target.definition.config.parse(target.config);
  resolveSecrets(config, target.secrets ?? {});
  return config;
}

function resolveSecrets(value: unknown, values: Readonly<Record<string, string>>): void {
  if (value instanceof Secret) {
    const source = value.source;
    const secret = source && "env" in source ? values[source.env] : undefined;
    if (secret === undefined) throw new Error("the test gives no value for a secret of its config");
    value.resolve(secret);
  } else if (typeof value === "object" && value !== null) {
    for (const inner of Object.values(value)) resolveSecrets(inner, values);
  }
}

export interface DriveOptions {
  readonly batchEvents?: number;
  readonly committed?: Committed;
  /** Called after every error, before the next attempt: repair the destination here. */
  readonly onError?: (error: Error) => void | Promise<void>;
  readonly attemptsMax?: number;
  readonly signal?: AbortSignal;
}

export interface Driven {
  readonly errors: readonly Error[];
  readonly deadLetters: ReadonlyMap<string, string>;
  readonly committed: Committed;
}

/**
 * What delivery does with a sink, as the contracts of core/sink.ts and core/errors.ts say it, in its
 * simplest form: one batch after the other, and for each error its one consequence.
 */
export async function drive(
  target: Target,
  events: readonly JournalEvent[],
  options: DriveOptions = {},
): Promise<Driven> {
  const errors: Error[] = [];
  const deadLetters = new Map<string, string>();
  let committed = options.committed ?? nothingCommitted;
  let sink: Sink | undefined;
  const signal = options.signal ?? new AbortController().signal;

  async function opened(): Promise<Sink> {
    sink ??= await openSink(target, committed);
    return sink;
  }

  async function failed(error: unknown): Promise<void> {
    if (!isExpected(error)) throw error;
    errors.push(error);
    if (errors.length > (options.attemptsMax ?? 60)) throw error;
    if (target.definition.guarantee === "exactly_once") {
      await sink?.close();
      sink = undefined;
    }
    await options.onError?.(error);
  }

  /** Writes these events, which lie between the two positions; returns the state to commit. */
  async function write(part: readonly JournalEvent[], from: Position): Promise<SinkState | undefined> {
    let rest = part;
    let state: SinkState | undefined;
    while (rest.length > 0) {
      try {
        const open = await opened();
        if (open.position) rest = rest.filter((event) => !isPassed(event, open.position!));
        if (rest.length === 0) break;
        return (await open.write(makeBatch(open, rest, from, target.format), signal)) ?? state;
      } catch (error) {
        await failed(error);
        const isOfSome = error instanceof RejectedEventsError && error.isUnnamed && rest.length > 1;
        if (error instanceof TooLargeError || isOfSome) {
          if (rest.length === 1) return reject([{ index: 0, reason: error.message }], rest) as undefined;
          const half = Math.ceil(rest.length / 2);
          state = (await write(rest.slice(0, half), from)) ?? state;
          committed = { position: positionAfter(rest[half - 1]!), state: state ?? committed.state };
          rest = rest.slice(half);
          from = positionBefore(rest[0]!);
        } else if (error instanceof RejectedEventsError) {
          reject(error.rejected, rest);
          rest = (error.remaining ?? []).map((index) => rest[index]!);
        } else if (error instanceof RetryableError && error.remaining) {
          rest = error.remaining.map((index) => rest[index]!);
        }
      }
    }
    return state;
  }

  function reject(rejected: readonly Rejection[], rest: readonly JournalEvent[]): void {
    for (const { index, reason } of rejected) deadLetters.set(rest[index]!.identity, reason);
  }

  try {
    const size = options.batchEvents ?? 25;
    for (let at = 0; at < events.length; at += size) {
      const part = events.slice(at, at + size);
      const state = await write(part, positionBefore(part[0]!));
      committed = { position: positionAfter(part.at(-1)!), state: state ?? committed.state };
    }
    return { errors, deadLetters, committed };
  } finally {
    await sink?.close();
  }
}

const EXPECTED = ["RetryableError", "TooLargeError", "RejectedEventsError", "PausedError"];

function isExpected(
  error: unknown,
): error is RetryableError | TooLargeError | RejectedEventsError | PausedError {
  return error instanceof Error && EXPECTED.includes(error.name);
}

function isPassed(event: JournalEvent, position: Position): boolean {
  return comparePositions(positionAfter(event), position) <= 0;
}

/** One attempt at one batch; the error it fails with, or undefined. */
export async function attempt(
  sink: Sink,
  batch: Batch,
  signal = new AbortController().signal,
): Promise<unknown> {
  try {
    await sink.write(batch, signal);
    return undefined;
  } catch (error) {
    return error;
  }
}
