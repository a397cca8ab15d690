import { sinkOfLane } from "../../config/cluster.ts";
import type { Config, SinkConfig } from "../../config/schema.ts";
import { systemClock } from "../../core/clock.ts";
import { DecisionNeededError, explain, PausedError } from "../../core/errors.ts";
import type { Log } from "../../core/log.ts";
import { startOf } from "../../core/position.ts";
import type { SinkContext } from "../../core/sink.ts";
import { timeoutSignal } from "../../core/timeout.ts";
import type { ReaderState } from "../../delivery/position.ts";
import { isAsRestored } from "../../journal/backup.ts";
import { openStateForReading } from "../../journal/database.ts";
import { isSeenLocked } from "../../journal/lock.ts";
import { heldOf } from "../../journal/reader-row.ts";
import { earlierJournals } from "../../journal/shard.ts";
import { liveFrom, readStoredLive } from "../../journal/view/live.ts";
import { sinkAfterRestore } from "../after-restore.ts";
import { definitionOf, formatOf, ownConfig, sinkConfigs } from "../sinks.ts";
import type { CheckFinding } from "./finding.ts";
import { checkLanes, type Said } from "./lanes.ts";
import { hasState } from "./state.ts";

export interface SinkCheck {
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly stdout: NodeJS.WritableStream;
  /** Of the cluster, where they are known. */
  readonly lanes?: number | undefined;
}

/**
 * Probes every sink, which writes nothing and disturbs no running process. Beside a running process its own
 * report comes first.
 */
export async function* checkSinks(config: Config, io: SinkCheck): AsyncGenerator<CheckFinding> {
  const running = hasState(config) && isSeenLocked(config.state);
  for (const sink of sinkConfigs(config)) {
    yield* advice(sink);
    if (running) yield deliveryFinding(config, sink);
    yield* probeFindings(config, sink, io);
  }
}

/** In a cluster, a sink that differs from lane to lane is probed as each lane opens it. */
async function* probeFindings(config: Config, sink: SinkConfig, io: SinkCheck): AsyncGenerator<CheckFinding> {
  const subject = `sink ${sink.name}`;
  const ofLane = (lane: number) => sinkOfLane(sink, config.cluster!.name, lane);
  if (config.cluster !== undefined && ofLane(0) !== sink)
    yield* checkLanes(subject, io.lanes ?? 1, (lane) => probe(config, ofLane(lane), io));
  else for await (const said of probe(config, sink, io)) yield { subject, ...said };
}

function deliveryFinding(config: Config, sink: SinkConfig): CheckFinding {
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

async function* probe(config: Config, sink: SinkConfig, io: SinkCheck): AsyncGenerator<Said> {
  const definition = definitionOf(sink);
  try {
    const { position, state, earlierJournals, isRestored } = heldBySink(config, sink);
    const remarks = await definition.probe?.({
      name: sink.name,
      config: ownConfig(sink),
      format: formatOf(sink),
      journal: position.journal,
      earlierJournals,
      position,
      state,
      clock: systemClock,
      log: io.log,
      signal: AbortSignal.any([io.signal, timeoutSignal(PROBE_MS_MAX)]),
      stdout: io.stdout,
    });
    const promise = definition.promiseOf?.(ownConfig(sink)) ?? definition.promise;
    yield { ok: true, message: `${definition.type} is ready; ${promise}` };
    for (const message of remarks ?? []) yield { ok: true, warning: true, message };
    if (isRestored) yield { ok: true, warning: true, message: `${RESTORED} ${sinkAfterRestore(sink)}` };
  } catch (error) {
    if (io.signal.aborted) throw error;
    yield { ok: false, message: `${sentence(explain(error))}${remedyOf(error)}` };
  }
}

const PROBE_MS_MAX = 60_000;
/** Only the next start compares the destination with the state, page by page. */
const RESTORED = "The state was restored from a copy, and this sink has committed nothing since:";

/** A destination's own words often end without a full stop. */
const sentence = (text: string) => (/[.!?:…]$/.test(text) ? text : `${text}.`);

function remedyOf(error: unknown): string {
  if (error instanceof PausedError) return ` ${error.remedy}`;
  if (error instanceof DecisionNeededError) return ` Choose: ${error.choices.join("; or ")}`;
  return "";
}

/** The position and state that delivery would open it with. */
function heldBySink(
  config: Config,
  sink: SinkConfig,
): Pick<SinkContext<unknown>, "position" | "state" | "earlierJournals"> & { readonly isRestored: boolean } {
  if (!hasState(config))
    return { position: startOf("none"), state: undefined, earlierJournals: undefined, isRestored: false };
  const db = openStateForReading(config.state);
  try {
    const { position, state } = heldOf(db, sink.name);
    const earlier = earlierJournals(db);
    return {
      position,
      state: (state as ReaderState | undefined)?.sink,
      earlierJournals: earlier,
      isRestored: isAsRestored(db, sink.name),
    };
  } finally {
    db.close();
  }
}

/** Warnings that follow from the config alone. */
export function* advice(sink: SinkConfig): Generator<CheckFinding> {
  for (const message of definitionOf(sink).advise?.(ownConfig(sink)) ?? [])
    yield { subject: `sink ${sink.name}`, ok: true, warning: true, message };
}
