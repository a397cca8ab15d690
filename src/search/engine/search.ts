import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { DuckDBConnection, DuckDBInstance } from "@duckdb/node-api";
import type { Holdings } from "../../core/holdings.ts";
import type { Describe } from "../../core/meaning.ts";
import { createFetcher, type Hit, MovedError } from "../find/fetch.ts";
import { type Condition, conditionOf, type Filter } from "../find/filter.ts";
import { createFrameCache, createFrameReader, MismatchError } from "../find/frames.ts";
import { narrowByText } from "../find/scan.ts";
import { END_OF_SLICE, type FoundRow, type OrderPlace, type Slice, selectRows } from "../find/select.ts";
import { type QuerySnapshot, takeSnapshot } from "../find/snapshot.ts";
import { type Prefilter, textPrefilter, textTest } from "../find/text.ts";
import { createTextEngine } from "../find/text-engine.ts";
import { openCatalog } from "../index/catalog.ts";
import { type IndexedSnapshot, partName, type SyncProgress, syncIndex } from "../index/sync.ts";
import { interruptible, openInstance } from "./duckdb.ts";

/*
 * Search over everything that is held. A query takes these steps:
 *
 *   1. sync      the newest snapshot of the holdings; index files that are missing or damaged are made
 *   2. select    rows of the index in time order, slice by slice
 *   3. fetch     the events' bytes from data files and journal pages, each checked by its hash
 *   4. test      conditions that the index cannot decide, on the parsed event
 *
 * When the index turns out to be damaged in step 2 or 3, or a page was trimmed, the query syncs again and goes on
 * behind the last event that it gave.
 */
export interface Search {
  /** Brings the index up to date. */
  sync(signal: AbortSignal, onProgress?: (progress: SyncProgress) => void): Promise<IndexedSnapshot>;
  /** Removes every file of the index and makes it from the data files and the journal. */
  rebuild(signal: AbortSignal, onProgress?: (progress: SyncProgress) => void): Promise<IndexedSnapshot>;
  find(query: FindQuery, signal: AbortSignal): AsyncGenerator<readonly Hit[]>;
  /** Runs work over one snapshot with a connection of its own. */
  query<Result>(
    signal: AbortSignal,
    work: (connection: DuckDBConnection, snapshot: QuerySnapshot) => Promise<Result>,
  ): Promise<Result>;
  close(): void;
}

export interface FindQuery {
  readonly condition: Condition;
  readonly fromNs?: bigint | undefined;
  readonly toNs?: bigint | undefined;
  readonly descending?: boolean | undefined;
  readonly after?: OrderPlace | null | undefined;
  /** How many hits are needed; all where undefined. */
  readonly limit?: number | undefined;
  readonly prefilter?: Prefilter | undefined;
  /** Decides over the parsed event and its bytes; null where the index decides. */
  readonly test?: ((event: unknown, bytes: Buffer) => boolean) | null | undefined;
}

export interface SearchOptions {
  readonly holdings: Holdings;
  readonly folder: string;
  readonly describe: Describe;
  readonly memoryBytes: number;
  nowMs(): number;
}

/** Rows whose bytes are read together: many where most of them will be left out. */
const SCAN_ROWS = 20_000;
const READ_ROWS = 4000;
const REPAIRS_MAX = 5;

export async function openSearch(options: SearchOptions): Promise<Search> {
  const { holdings, folder, describe, memoryBytes, nowMs } = options;
  const temporaryFolder = join(folder, "temporary");
  const instance: DuckDBInstance = await openInstance({ memoryBytes, temporaryFolder });
  const catalog = openCatalog(folder, nowMs);
  const building = await instance.connect();
  const context = { holdings, connection: building, catalog, describe };
  const cache = createFrameCache();
  let last: Promise<unknown> = Promise.resolve();

  function sync(signal: AbortSignal, onProgress: (progress: SyncProgress) => void = () => {}) {
    return inTurn(() => {
      makeFolders();
      return syncIndex(context, signal, onProgress);
    });
  }

  /** Again before each use: the folder is a cache, and may be deleted while the process runs. */
  function makeFolders(): void {
    mkdirSync(temporaryFolder, { recursive: true, mode: 0o700 });
  }

  function inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = last.then(work);
    last = turn.catch(() => {});
    return turn;
  }

  async function opened<Result>(work: (connection: DuckDBConnection) => Promise<Result>): Promise<Result> {
    const connection = await instance.connect();
    try {
      return await work(connection);
    } finally {
      connection.closeSync();
    }
  }

  /** True when something was wrong with the index, which the next sync repairs. */
  async function isRepairable(error: unknown, { snapshot, parts, pages }: IndexedSnapshot): Promise<boolean> {
    if (error instanceof MovedError) return true;
    if (error instanceof MismatchError && error.part >= 0) {
      const part = snapshot.parts.find(({ number }) => number === error.part)!;
      if (!(await catalog.check(partName(part)))) return true;
      // The parts may have been replaced after an erasure.
      const { parts: now } = await holdings.snapshot();
      if (!now.some(({ key }) => key === part.key)) return true;
      throw new Error(
        `${error.message} The index is intact, so the data file ${holdings.place}/${part.data} is missing or damaged: run \`tidemark archive verify\`.`,
        { cause: error },
      );
    }
    let damaged = error instanceof MismatchError;
    for (const { name } of error instanceof MismatchError ? pages : [...parts, ...pages])
      if (!(await catalog.check(name))) damaged = true;
    return damaged;
  }

  async function* findIn(
    connection: DuckDBConnection,
    indexed: IndexedSnapshot,
    query: FindQuery,
    after: OrderPlace | null,
    limit: number,
    signal: AbortSignal,
  ): AsyncGenerator<readonly Hit[]> {
    const { condition, fromNs, toNs, descending = false, prefilter = null, test = null } = query;
    const snapshot = await takeSnapshot(connection, indexed);
    const frames = createFrameReader(holdings, indexed.snapshot.parts, cache);
    const fetcher = createFetcher(holdings, frames);
    const words = prefilter === null ? null : createTextEngine(prefilter);
    const isScan = test !== null;
    const rowsMax = isScan || !Number.isFinite(limit) ? undefined : limit;
    const narrow = (slice: Slice) =>
      narrowByText(connection, snapshot, condition, slice, words!, frames, signal);
    const selecting = {
      ...{ condition, fromNs, toNs, descending, after, rowsMax },
      ...(words === null ? {} : { narrow }),
    };
    const batchRows = words !== null ? SCAN_ROWS : READ_ROWS;
    for await (const rows of batches(selectRows(connection, snapshot, selecting, signal), batchRows)) {
      const hits = await fetcher.fetch(rows, words, signal);
      yield test === null ? hits : hits.filter(({ bytes }) => test(parsed(bytes), bytes));
    }
  }

  return {
    sync,
    rebuild: (signal, onProgress = () => {}) =>
      inTurn(() => {
        makeFolders();
        catalog.clear();
        return syncIndex(context, signal, onProgress);
      }),
    async *find(query, signal) {
      let after = query.after ?? null;
      let left = query.limit ?? Number.POSITIVE_INFINITY;
      for (let repairs = 0; left > 0; repairs++) {
        const indexed = await sync(signal);
        const connection = await instance.connect();
        try {
          for await (const hits of findIn(connection, indexed, query, after, left, signal)) {
            const taken = hits.slice(0, left);
            left -= taken.length;
            after = taken.at(-1) ?? after;
            if (taken.length > 0) yield taken;
            if (left <= 0) return;
          }
          return;
        } catch (error) {
          signal.throwIfAborted();
          if (repairs >= REPAIRS_MAX || !(await isRepairable(error, indexed))) throw error;
        } finally {
          connection.closeSync();
        }
      }
    },
    async query(signal, work) {
      for (let repairs = 0; ; repairs++) {
        const indexed = await sync(signal);
        try {
          return await opened(async (connection) => {
            const snapshot = await takeSnapshot(connection, indexed);
            return interruptible(connection, signal, () => work(connection, snapshot));
          });
        } catch (error) {
          signal.throwIfAborted();
          if (repairs >= REPAIRS_MAX || !(await isRepairable(error, indexed))) throw error;
        }
      }
    },
    close() {
      building.closeSync();
      instance.closeSync();
    },
  };
}

/** A query of the command or the page as the engine takes it. */
export function findQueryOf(filter: Filter): FindQuery {
  const { text, fromNs, toNs } = filter;
  return {
    condition: conditionOf(filter),
    fromNs,
    toNs,
    ...(text === undefined ? {} : { prefilter: textPrefilter(text), test: textTest(text) }),
  };
}

async function* batches(
  rows: AsyncGenerator<readonly FoundRow[]>,
  size: number,
): AsyncGenerator<readonly FoundRow[]> {
  let batch: FoundRow[] = [];
  for await (const some of rows) {
    batch = batch.length === 0 ? [...some] : batch.concat(some);
    if (batch.length === 0 || (batch.length < size && some !== END_OF_SLICE)) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch {
    return undefined;
  }
}
