/*
 * The log that a lane's state is kept in. Every lane has two ordered logs with one writer at a time: `rows`, compacted by
 * key, and `bodies`, whose records stay until they are dropped. The state file of a lane is a copy of both.
 */

export interface LogRecord {
  readonly key: string;
  /** null removes the key. */
  readonly value: Uint8Array | null;
}

export interface StoredRecord extends LogRecord {
  readonly offset: number;
  /** By the clock of the log. */
  readonly timeMs: number;
}

/** Everything that one commit makes durable. The last row is the tip, which says that the commit is complete. */
export interface LogBatch {
  readonly rows: readonly LogRecord[];
  readonly bodies: readonly LogRecord[];
}

export interface Committed {
  /** The offset of the last row. */
  readonly rowOffset: number;
  /** The offset of the first body; undefined without bodies. */
  readonly bodyOffset: number | undefined;
}

export type LogName = "rows" | "bodies";

export interface LaneLog {
  readonly lane: number;
  /**
   * Makes the whole batch durable, or nothing of it. Calls do not overlap. After a rejection the outcome is not known:
   * the log is opened again, and what it holds then counts. Rejects with FencedError once another writer has opened it.
   */
  commit(batch: LogBatch): Promise<Committed>;
  /**
   * The committed records from an offset on, in order, up to the end at the time of the call. Offsets may have holes.
   * An offset behind the end gives nothing.
   */
  read(log: LogName, from: number, signal: AbortSignal): AsyncIterable<readonly StoredRecord[]>;
  /** Drops bodies before an offset. */
  dropBodies(before: number): Promise<void>;
  /** Ends this writer. Does not wait for a commit under way. */
  close(): Promise<void>;
}

export interface Changelog {
  /** The birth record of a lane; undefined where the lane was never made. */
  birth(lane: number, signal: AbortSignal): Promise<LaneBirth | undefined>;
  /** Takes the lane: ends the transaction of its last writer, and every commit of that writer fails from now on. */
  open(lane: number, signal: AbortSignal): Promise<LaneLog>;
}

/** The same changelog, with every commit of its lanes made by `around`. */
export function aroundCommits(
  changelog: Changelog,
  around: (commit: () => Promise<Committed>) => Promise<Committed>,
): Changelog {
  return {
    ...changelog,
    async open(lane, signal) {
      const log = await changelog.open(lane, signal);
      return { ...log, commit: (batch) => around(() => log.commit(batch)) };
    },
  };
}

/** The first record of a lane. It is written once, when the cluster is made. */
export interface LaneBirth {
  /** Differs between two clusters of one name. */
  readonly cluster: string;
  readonly lane: number;
  readonly lanes: number;
  /** The function that maps an organization to a lane. */
  readonly hash: string;
}

export const BIRTH_KEY = '["~birth"]';
export const OPENED_KEY = '["~opened"]';

/** Another writer has taken the lane. */
export class FencedError extends Error {
  override readonly name = "FencedError";
}

/** The lane's log and file contradict each other: a person has to decide. */
export class LostLogError extends Error {
  override readonly name = "LostLogError";
}
