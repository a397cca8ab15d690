import { existsSync } from "node:fs";
import type { Config, SinkConfig } from "../../config/schema.ts";
import { systemClock } from "../../core/clock.ts";
import { DecisionNeededError, explain, PausedError } from "../../core/errors.ts";
import type { Log } from "../../core/log.ts";
import { startOf } from "../../core/position.ts";
import type { SinkContext } from "../../core/sink.ts";
import { timeoutSignal } from "../../core/timeout.ts";
import type { ReaderState } from "../../delivery/position.ts";
import { openStateForReading } from "../../journal/database.ts";
import { isLocked, takeLock } from "../../journal/lock.ts";
import { heldOf } from "../../journal/reader-row.ts";
import { earlierJournals } from "../../journal/shard.ts";
import { liveFrom, readStoredLive } from "../../journal/view/live.ts";
import { definitionOf, formatOf, ownConfig, sinkConfigs } from "../sinks.ts";
import type { Finding } from "./finding.ts";

export interface SinkCheck {
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly stdout: NodeJS.WritableStream;
}

/**
 * Opens every sink as the next run would, under the lock, and closes it again. Beside a running process its
 * own report is used instead: a second opening could take the sink away from it.
 */
export async function* checkSinks(config: Config, io: SinkCheck): AsyncGenerator<Finding> {
  const running = existsSync(config.state) && isLocked(config.state);
  for (const sink of sinkConfigs(config)) {
    yield* advice(sink);
    if (running) yield deliveryFinding(config, sink);
    else yield await openFinding(config, sink, io);
  }
}

function deliveryFinding(config: Config, sink: SinkConfig): Finding {
  const subject = `sink ${sink.name}`;
  const db = openStateForReading(config.state);
  try {
    const live = liveFrom(readStoredLive(db), systemClock.now());
    const delivery = live?.deliveries().find((candidate) => candidate.name === sink.name);
    if (delivery === undefined)
      return { subject, ok: true, warning: true, message: "the running process has not reported on it yet" };
    const ok = delivery.state === "running" || delivery.state === "opening";
    const { state, reason, remedy } = delivery;
    return {
      subject,
      ok,
      message: `the running process says: ${state}${reason === null ? "" : `. ${reason}`}${remedy === null ? "" : ` ${remedy}`}`,
    };
  } finally {
    db.close();
  }
}

async function openFinding(config: Config, sink: SinkConfig, io: SinkCheck): Promise<Finding> {
  const definition = definitionOf(sink);
  const subject = `sink ${sink.name}`;
  const lock = takeLock(config.state);
  try {
    const { position, state, earlierJournals } = heldBySink(config, sink);
    let limit = "";
    const opened = await definition.open({
      name: sink.name,
      config: ownConfig(sink),
      format: formatOf(sink),
      journal: position.journal,
      earlierJournals,
      position,
      state,
      clock: systemClock,
      log: io.log,
      signal: AbortSignal.any([io.signal, timeoutSignal(60_000)]),
      stdout: io.stdout,
      limited: (problem) => {
        limit = problem ? ` ${problem.message} ${problem.remedy}` : "";
      },
    });
    await opened.close();
    return {
      subject,
      ok: true,
      message: `${definition.type} can be opened; ${definition.promiseOf?.(ownConfig(sink)) ?? definition.promise}${limit}`,
    };
  } catch (error) {
    if (io.signal.aborted) throw error;
    const remedy =
      error instanceof PausedError
        ? ` ${error.remedy}`
        : error instanceof DecisionNeededError
          ? ` Choose: ${error.choices.join("; or ")}`
          : "";
    return { subject, ok: false, message: `${explain(error)}${remedy}` };
  } finally {
    lock.release();
  }
}

/** The position and state that delivery would open it with. */
function heldBySink(
  config: Config,
  sink: SinkConfig,
): Pick<SinkContext<unknown>, "position" | "state" | "earlierJournals"> {
  if (!existsSync(config.state))
    return { position: startOf("none"), state: undefined, earlierJournals: undefined };
  const db = openStateForReading(config.state);
  try {
    const { position, state } = heldOf(db, sink.name);
    const earlier = earlierJournals(db);
    return { position, state: (state as ReaderState | undefined)?.sink, earlierJournals: earlier };
  } finally {
    db.close();
  }
}

/** Warnings that follow from the config alone. */
export function* advice(sink: SinkConfig): Generator<Finding> {
  for (const message of definitionOf(sink).advise?.(ownConfig(sink)) ?? [])
    yield { subject: `sink ${sink.name}`, ok: true, warning: true, message };
}
