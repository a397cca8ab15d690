import { otherConfigText } from "../app/actions.ts";
import { openApp } from "../app.ts";
import type { Config } from "../config/schema.ts";
import { type ActionBody, type ActionKind, perform } from "../core/actions.ts";
import { systemClock } from "../core/clock.ts";
import { UsageError } from "../core/errors.ts";
import { createRequests, type RequestResult } from "../journal/command-queue.ts";
import { openState } from "../journal/database.ts";
import { isLocked } from "../journal/lock.ts";
import type { Io } from "./io.ts";
import { createLog } from "./log.ts";
import { runOnce } from "./once.ts";
import { showProgress } from "./progress.ts";

const ASK_TIMEOUT_MS = 30_000;
const NOT_RUNNING =
  "No process is running with this state file, so no sink waits: the next run tries all of them.";

/**
 * Has an action carried out: by the running process where there is one, else here, under the lock (R15). In a cluster by
 * the machines that run the lanes (C3).
 */
export async function change<Kind extends ActionKind>(
  io: Io,
  config: Config,
  kind: Kind,
  body: ActionBody<Kind>,
  afterwards?: "once",
): Promise<void> {
  const { cluster } = config;
  if (cluster !== undefined) return changeInCluster(io, { ...config, cluster }, kind, body);
  if (isLocked(config.state) && (await ask(io, config, kind, body))) return;
  // Renaming and forgetting repair a state that does not match its sinks, so that mismatch is no error here.
  const repairing = kind === "rename" || kind === "forget";
  const app = await openApp({ config, log: createLog(io, config.log.level), stdout: io.stdout, repairing });
  try {
    const result = await perform(app.actions, kind, body, io.signal);
    tell(io, kind === "retry" ? { ...result, message: NOT_RUNNING } : result);
    if (afterwards !== "once") return;
    // What it could not read or deliver is told, with exit code 1, as by `run --once`, which has a bar of its own.
    const progress = io.interactive ? undefined : showProgress(io, app);
    await runOnce(app, io).finally(() => progress?.stop());
  } finally {
    await app.close();
  }
}

async function changeInCluster<Kind extends ActionKind>(
  io: Io,
  config: Config & { readonly cluster: NonNullable<Config["cluster"]> },
  kind: Kind,
  body: ActionBody<Kind>,
): Promise<void> {
  const { openClusterClient } = await import("../app/cluster/client.ts");
  const client = await openClusterClient(config, createLog(io, config.log.level), io.signal);
  try {
    tell(io, await perform(client.actions, kind, body, io.signal));
  } finally {
    await client.close();
  }
}

/** false: the process that was asked has ended, so the caller carries it out. */
async function ask(io: Io, config: Config, kind: ActionKind, body: unknown): Promise<boolean> {
  const db = openState(config.state);
  try {
    const requests = createRequests(db, systemClock);
    const running = { timeoutMs: ASK_TIMEOUT_MS, isRunning: () => isLocked(config.state) };
    const result = await requests.ask(kind, body, running, io.signal);
    if (result === undefined) return false;
    if (!result.ok) throw refusalOf(config, result);
    tell(io, result);
    return true;
  } finally {
    db.close();
  }
}

/** Exit code 2 is for a wrong order; one that could not be carried out, or was interrupted, gives 1. */
function refusalOf(config: Config, { message, error }: RequestResult): Error {
  const other = otherConfigText(config, message);
  const isUsage = other !== undefined || error === "usage" || error === "unknown_name";
  return isUsage ? new UsageError(other ?? message) : new Error(message);
}

/** Where everything has to wait, nothing was done: a script must notice. */
function tell(
  io: Io,
  { message, count, waiting = 0 }: Pick<RequestResult, "message" | "count" | "waiting">,
): void {
  if (count === 0 && waiting > 0) throw new UsageError(message);
  io.stdout.write(`${message}\n`);
}
