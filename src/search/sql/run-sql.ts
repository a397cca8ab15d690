import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { DuckDBConnection } from "@duckdb/node-api";
import { UsageError } from "../../core/errors.ts";
import { COLUMNS } from "../columns.ts";
import { interruptible, loadDuckDb, openInstance, quoted } from "../engine/duckdb.ts";
import { takeSnapshot } from "../find/snapshot.ts";
import type { IndexedSnapshot } from "../index/sync.ts";
import { refuseOtherTables } from "./tables.ts";

/*
 * One SELECT of a user over the view `events` (A26). The walls, from the outside in:
 *
 *   1. The text must begin like a SELECT, be one statement, and be a SELECT for DuckDB itself.
 *   2. It may name the view, its own subqueries and a few functions that read nothing, no other table or function.
 *   3. It runs in an instance of its own that may open the files of the index and no other, cannot load
 *      extensions, and whose settings are locked.
 *   4. Time, memory and disk are bounded. The engine's own limit of memory leaves out what a single function needs,
 *      so the memory of the process is watched too.
 */
export interface SqlOptions {
  readonly memoryBytes: number;
  readonly temporaryFolder: string;
  readonly signal: AbortSignal;
  /** The memory of this process. Without it only the engine's own limit applies. */
  usedBytes?(): number;
}

/** Memory that a query may take beyond its limit, for rows on their way out. */
const SLACK_BYTES = 256_000_000;
const LOOK_MS = 50;
/** An interrupted query ends sooner than this, unless it is inside a function. */
const STUCK_MS = 500;

export interface SqlResult {
  readonly columns: readonly string[];
  /** Rows as JSON values, in batches. */
  readonly rows: AsyncIterable<readonly unknown[][]>;
}

/** The columns of the view, with what they mean. */
export const EVENT_COLUMNS: readonly { readonly name: string; readonly description: string }[] = [
  { name: "time", description: "when it happened, in UTC; empty where the event has no readable time" },
  ...COLUMNS.flatMap((column) => ("description" in column ? [column] : [])),
  { name: "closed", description: "true in a closed part of the archive, false in the journal" },
];

/** Calls `use` with the result while it can be read. */
export async function runSql(
  indexed: IndexedSnapshot,
  text: string,
  options: SqlOptions,
  use: (result: SqlResult) => Promise<void>,
): Promise<void> {
  refuseOthers(text);
  const memory = watchMemory(options);
  const signal = AbortSignal.any([options.signal, memory.signal]);
  const instance = await openInstance({ ...options, temporaryFolder: join(options.temporaryFolder, "sql") });
  const connection = await instance.connect();
  let running: Promise<unknown> = Promise.resolve();
  /** Ends at once when the signal aborts, also where the engine is inside a function that cannot be interrupted. */
  const prompt = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    const own = interruptible(connection, signal, work);
    running = own.catch(() => {});
    return Promise.race([own, abortedBy(signal)]);
  };
  try {
    await makeView(connection, indexed);
    await lock(connection, indexed);
    const statement = await prompt(() => selectOf(connection, text));
    const result = await prompt(() => statement.stream());
    const columns = result.deduplicatedColumnNames();
    await use({
      columns,
      rows: (async function* () {
        for (;;) {
          const chunk = await prompt(() => result.fetchChunk());
          if (chunk === null || chunk.rowCount === 0) return;
          yield chunk.getRows().map((row) => row.map(plainValue));
        }
      })(),
    });
  } catch (error) {
    const explanation = explained(error, signal);
    throw (await isStuck(running, signal)) ? new StuckQueryError(explanation) : explanation;
  } finally {
    memory.stop();
    const closed = running.then(() => {
      connection.closeSync();
      instance.closeSync();
    });
    if (!signal.aborted) await closed;
  }
}

/** The query was stopped, but the engine goes on inside a function. Only the end of the process ends it. */
export class StuckQueryError extends UsageError {
  constructor(cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
  }
}

async function isStuck(running: Promise<unknown>, signal: AbortSignal): Promise<boolean> {
  if (!signal.aborted) return false;
  const ended = new AbortController();
  const stuck = sleep(STUCK_MS, true, { signal: ended.signal }).catch(() => false);
  const result = await Promise.race([running.then(() => false), stuck]);
  ended.abort();
  return result;
}

/** Never fulfilled. */
function abortedBy(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

/** Aborts when the process has grown by more than the query may take. */
function watchMemory({ memoryBytes, usedBytes }: SqlOptions): { signal: AbortSignal; stop(): void } {
  const exceeded = new AbortController();
  const limit = (usedBytes?.() ?? 0) + memoryBytes + SLACK_BYTES;
  const timer = setInterval(() => {
    if (usedBytes !== undefined && usedBytes() > limit) exceeded.abort(tooLarge(""));
  }, LOOK_MS);
  return { signal: exceeded.signal, stop: () => clearInterval(timer) };
}

function tooLarge(message: string): UsageError {
  return new UsageError(
    `The query needs more memory than it may have (search.memory). Narrow it with WHERE, or group by fewer values. ${message}`.trimEnd(),
  );
}

async function makeView(connection: DuckDBConnection, indexed: IndexedSnapshot): Promise<void> {
  const snapshot = await takeSnapshot(connection, indexed);
  const types = COLUMNS.map(({ name, type }) => `NULL::${type} AS "${name}"`).join(", ");
  const source = snapshot.source(undefined, undefined) ?? `(SELECT ${types} WHERE false)`;
  const own = COLUMNS.flatMap((column) => ("description" in column ? [`"${column.name}"`] : []));
  await connection.run(
    `CREATE TEMP VIEW events AS SELECT CASE WHEN time_ns > -8000000000000000000 THEN make_timestamp_ns(time_ns) END AS time,
     ${own.join(", ")}, part >= 0 AS closed FROM ${source}`,
  );
}

async function lock(connection: DuckDBConnection, { parts, pages }: IndexedSnapshot): Promise<void> {
  const paths = [...parts, ...pages].map(({ path }) => quoted(path)).join(", ");
  await connection.run(`SET allowed_paths = [${paths}]`);
  await connection.run("SET enable_external_access = false");
  await connection.run("SET lock_configuration = true");
}

/** DuckDB takes PRAGMA, DESCRIBE and SHOW for SELECTs too, so the first word is checked as well. */
function refuseOthers(text: string): void {
  const start = text.replace(/^(\s|--[^\n]*(\n|$)|\/\*[\s\S]*?\*\/|\()+/, "");
  const word = /^[A-Za-z]+/.exec(start)?.[0]?.toUpperCase() ?? "";
  if (!["SELECT", "WITH", "FROM"].includes(word)) throw notSelect(word);
}

async function selectOf(connection: DuckDBConnection, text: string) {
  const { StatementType } = await loadDuckDb();
  const statements = await connection.extractStatements(text);
  if (statements.count !== 1)
    throw new UsageError(`One SELECT is accepted, and there are ${statements.count} statements.`);
  // Before it is prepared: the engine calls functions with fixed arguments while it prepares.
  await refuseOtherTables(connection, text);
  const statement = await statements.prepare(0);
  if (statement.statementType !== StatementType.SELECT) throw notSelect("");
  return statement;
}

function notSelect(word: string): UsageError {
  return new UsageError(
    `Only one SELECT over the view "events" is accepted${word === "" ? "" : `, not ${word}`}. Example: tidemark sql "SELECT event_type, count(*) FROM events GROUP BY 1"`,
  );
}

function explained(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  if (error instanceof UsageError || !(error instanceof Error)) return error;
  const { message } = error;
  if (/Out of Memory/i.test(message)) return tooLarge(message);
  if (/Binder Error|Catalog Error|Parser Error|Conversion Error|Permission Error|Invalid Input/.test(message))
    return new UsageError(
      `${message}\nThe columns of "events" are ${EVENT_COLUMNS.map(({ name }) => name).join(", ")}.`,
    );
  return error;
}

/** Values as JSON has them: whole numbers as numbers where they fit, everything else as text. */
function plainValue(value: unknown): unknown {
  if (value === null || typeof value === "boolean" || typeof value === "number" || typeof value === "string")
    return value;
  if (typeof value === "bigint")
    return value <= Number.MAX_SAFE_INTEGER && value >= Number.MIN_SAFE_INTEGER
      ? Number(value)
      : String(value);
  return String(value);
}
