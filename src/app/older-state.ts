import type { ArchiveConfig } from "../archive/config.ts";
import { entriesInStore, olderState } from "../archive/log/ahead.ts";
import { openStore } from "../archive/open.ts";
import type { ArchiveStore } from "../archive/store/store.ts";
import type { Config } from "../config/schema.ts";
import { createSteadyTime, systemClock } from "../core/clock.ts";
import type { DecisionNeededError } from "../core/errors.ts";
import { archiveEntriesIn } from "../journal/archive/state.ts";
import { openStateForReading, type State } from "../journal/database.ts";
import { archiveConfigs } from "./archives.ts";

type OwnArchive = Pick<ArchiveConfig, "origin" | "store"> & { readonly name: string };

/** A store that does not answer for so long is not waited for. */
const ANSWER_MS = 5000;
const LOOK_EVERY_MS = 60_000;

/**
 * The error where the log in the store is ahead of the state. Undefined also where the store cannot be read: whoever
 * needs its files says that.
 */
export async function olderStateOf(
  { name, origin }: Pick<OwnArchive, "name" | "origin">,
  store: ArchiveStore,
  db: State,
): Promise<DecisionNeededError | undefined> {
  const inStore = await inTime(entriesInStore(store, origin));
  // The store comes first: a running process has every entry in the state before it is in the store.
  const inState = archiveEntriesIn(db, name);
  return inStore > inState ? olderState(store.place, inStore, inState) : undefined;
}

/** The entries, or 0 after a failure or too long a wait. */
async function inTime(entries: Promise<number>): Promise<number> {
  const done = new AbortController();
  const late = systemClock.sleep(ANSWER_MS, done.signal).then(() => 0);
  return Promise.race([entries, late])
    .catch(() => 0)
    .finally(() => {
      late.catch(() => {});
      done.abort();
    });
}

/** Throws where the state is older. Looks at the store at most once a minute: in S3 a look is a request. */
export function createStateCheck(own: OwnArchive, store: ArchiveStore, db: State): () => Promise<void> {
  const steadyMs = createSteadyTime(systemClock);
  let dueMs = steadyMs();
  return async () => {
    if (steadyMs() < dueMs) return;
    const older = await olderStateOf(own, store, db);
    if (older !== undefined) throw older;
    dueMs = steadyMs() + LOOK_EVERY_MS;
  };
}

/** Opens what it needs. Undefined where the state or the store cannot be opened. */
export async function olderStateIn(
  { state }: Pick<Config, "state">,
  own: OwnArchive,
): Promise<DecisionNeededError | undefined> {
  const closers: (() => unknown)[] = [];
  try {
    const db = openStateForReading(state);
    closers.push(() => db.close());
    const store = await openStore(own.store, systemClock);
    closers.push(() => store.close());
    return await olderStateOf(own, store, db);
  } catch {
    return undefined;
  } finally {
    for (const close of closers) await close();
  }
}

/**
 * For a view without a running process. Archives in a directory only: a view has no secrets, so that anyone on call can
 * use it, and must not wait for a network.
 */
export function archiveTrouble(config: Config, db: State) {
  const own = archiveConfigs(config).filter(({ store }) => "directory" in store);
  return async (name: string): Promise<{ reason: string; remedy: string } | undefined> => {
    const archive = own.find((one) => one.name === name);
    if (archive === undefined) return undefined;
    const store = await openStore(archive.store, systemClock);
    const older = await olderStateOf(archive, store, db);
    return older && { reason: older.message, remedy: `Choose one: ${older.choices.join("; ")}.` };
  };
}
