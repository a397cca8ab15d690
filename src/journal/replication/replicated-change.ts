import type Database from "better-sqlite3";
import type { Change } from "../../core/change.ts";
import { type Committed, type LaneLog, LostLogError } from "../../core/changelog.ts";
import { createBatchPlanner, type Tip } from "./batch.ts";
import { installCapture, type TouchedRow } from "./capture.ts";
import { createTipStore, type LocalTip } from "./tip-store.ts";

/*
 * Changes of a lane (C1). Waiting changes form a group:
 *   1. each runs in a savepoint of one open transaction; one that throws is rolled back alone
 *   2. the rows they touched are committed in the log
 *   3. the transaction is committed in the file, together with the tip that was reached
 *   4. their promises settle
 * A process that ends after 2 leaves a file that is behind its log, and the next opening applies the rest. When 2 or 3
 * fails, the lane is lost: the outcome is not known here, so every change is refused until the lane is opened again.
 */

const GROUP_MAX = 64;

export interface ReplicatedOptions {
  readonly writer: Database.Database;
  readonly log: LaneLog;
  readonly tip: LocalTip;
  readonly schema: number;
  /** A commit has succeeded. */
  confirmed?(tip: Tip): void;
  /** Called once, with the reason. */
  lost?(error: unknown): void;
}

export interface ReplicatedChange {
  readonly change: Change;
  isInChange(): boolean;
  readonly tip: LocalTip;
  /** Writes every row again, in one commit. Needed after a migration that changed rows (C14). */
  rewrite(): Promise<void>;
  /** The offset before which the log of bodies holds nothing that is needed. */
  unneededBodies(): number;
  /** Refuses changes from now on; resolves when the group under way has ended. */
  stop(reason: Error): Promise<void>;
}

/** A change that could not be committed in the log. The lane has to be opened again. */
class LostLaneError extends Error {
  override readonly name = "LostLaneError";
}

interface Waiting {
  readonly work: () => unknown;
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
}

export function createReplicatedChange(options: ReplicatedOptions): ReplicatedChange {
  const { writer, log, schema } = options;
  const capture = installCapture(writer);
  const plan = createBatchPlanner(writer, capture);
  const store = createTipStore(writer);
  const queue: Waiting[] = [];
  let tip = options.tip;
  let inChange = false;
  let ended: Error | undefined;
  let turn: Promise<void> | undefined;

  function lose(error: unknown): LostLaneError {
    const lost = new LostLaneError(`The lane was lost while a change was committed: ${messageOf(error)}`, {
      cause: error,
    });
    if (ended === undefined) {
      ended = lost;
      options.lost?.(error);
    }
    return lost;
  }

  async function drain(): Promise<void> {
    // Changes that are asked for in the same turn of the event loop share a commit.
    await null;
    while (queue.length > 0 && ended === undefined) await commitGroup(queue.splice(0, GROUP_MAX));
    for (const { reject } of queue.splice(0)) reject(ended);
    turn = undefined;
  }

  async function commitGroup(group: readonly Waiting[]): Promise<void> {
    const settle: (() => void)[] = [];
    try {
      writer.exec("BEGIN IMMEDIATE");
      for (const waiting of group) settle.push(runOne(waiting));
      await commitTouched(capture.take());
      writer.exec("COMMIT");
    } catch (error) {
      if (writer.open && writer.inTransaction) writer.exec("ROLLBACK");
      const lost = lose(error);
      for (const { reject } of group) reject(lost);
      return;
    }
    for (const settled of settle) settled();
  }

  function runOne({ work, resolve, reject }: Waiting): () => void {
    writer.exec("SAVEPOINT one");
    capture.begin();
    inChange = true;
    try {
      const result = work();
      inChange = false;
      capture.keep();
      writer.exec("RELEASE one");
      return () => resolve(result);
    } catch (error) {
      inChange = false;
      capture.discard();
      // A full disk ends the whole transaction by itself.
      if (!writer.inTransaction) throw error;
      writer.exec("ROLLBACK TO one; RELEASE one");
      return () => reject(error);
    }
  }

  async function commitTouched(touched: readonly TouchedRow[]): Promise<void> {
    if (touched.length === 0) return;
    const planned = plan(touched, tip, schema);
    const committed = await log.commit(planned.batch);
    refuseReplacedLog(log.lane, tip, committed);
    const { rowOffset, bodyOffset } = committed;
    const { sequence, hash } = planned.tip;
    const next = {
      ...tip,
      ...{ sequence, hash, schema, rowOffset },
      bodyOffset: bodyOffset === undefined ? tip.bodyOffset : bodyOffset + planned.batch.bodies.length,
    };
    for (const key of planned.removed) store.remove(key);
    for (const key of planned.placed) store.place(key, bodyOffset!);
    store.put(next);
    tip = next;
    options.confirmed?.(planned.tip);
  }

  return {
    get tip() {
      return tip;
    },
    isInChange: () => inChange,
    change: <Result>(work: () => Result): Promise<Result> =>
      new Promise<Result>((resolve, reject) => {
        if (ended !== undefined) return reject(ended);
        queue.push({ work, resolve: resolve as (result: unknown) => void, reject });
        turn ??= drain();
      }),
    async rewrite() {
      writer.exec("BEGIN IMMEDIATE");
      try {
        await commitTouched(everyRow(writer, capture.tables));
        writer.exec("COMMIT");
      } catch (error) {
        if (writer.inTransaction) writer.exec("ROLLBACK");
        throw lose(error);
      }
    },
    unneededBodies: () => store.oldestBody() ?? tip.bodyOffset,
    async stop(reason) {
      ended ??= reason;
      await turn;
    },
  };
}

/** C6: offsets only grow, except in a topic that was deleted and made again, or cut off by an unclean election. */
function refuseReplacedLog(lane: number, tip: LocalTip, { rowOffset, bodyOffset }: Committed): void {
  const isReplaced = rowOffset <= tip.rowOffset || (bodyOffset !== undefined && bodyOffset < tip.bodyOffset);
  if (!isReplaced) return;
  throw new LostLogError(
    `The log of lane ${lane} in Kafka was replaced or cut off while the lane ran: a commit was stored at ${rowOffset}, behind an earlier one at ${tip.rowOffset}. The file of this machine has everything that was committed before and is kept.`,
  );
}

function everyRow(
  db: Database.Database,
  tables: ReturnType<typeof installCapture>["tables"],
): readonly TouchedRow[] {
  return [...tables.values()].flatMap(({ name, keyColumns }) => {
    const columns = keyColumns.map((column) => `"${column}"`).join(", ");
    const keys = db.prepare(`SELECT ${columns} FROM main."${name}"`).raw().all() as (string | number)[][];
    return keys.map((key) => ({ table: name, key }));
  });
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
