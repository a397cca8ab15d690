import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import type { DuckDBConnection, DuckDBInstance } from "@duckdb/node-api";
import { UsageError } from "../../core/errors.ts";

type DuckDb = typeof import("@duckdb/node-api");

const PACKAGE = "@duckdb/node-api";
const PACKAGE_VERSION = "1.5.5-r.5";

/** The engine is optional: everything but search works without it. */
export async function loadDuckDb(): Promise<DuckDb> {
  try {
    return await import("@duckdb/node-api");
  } catch (error) {
    throw new UsageError(
      `Search needs the package ${PACKAGE}, which is not installed. Install it beside Tidemark with "npm install ${PACKAGE}@${PACKAGE_VERSION}". Everything else works without it.`,
      { cause: error },
    );
  }
}

/** True where the package can be loaded; it is not loaded. */
export function isEngineInstalled(): boolean {
  try {
    createRequire(import.meta.url).resolve(PACKAGE);
    return true;
  } catch {
    return false;
  }
}

export interface EngineLimits {
  readonly memoryBytes: number;
  /** What does not fit into memory goes there. */
  readonly temporaryFolder: string;
}

/** How much larger the temporary files may be than the memory. */
const TEMPORARY_FACTOR = 20;

/** An instance with one thread and bounded memory. It installs and loads nothing from elsewhere. */
export async function openInstance(limits: EngineLimits): Promise<DuckDBInstance> {
  const { DuckDBInstance } = await loadDuckDb();
  mkdirSync(limits.temporaryFolder, { recursive: true, mode: 0o700 });
  const instance = await DuckDBInstance.create(":memory:", {
    threads: "1",
    memory_limit: `${Math.floor(limits.memoryBytes / 1e6)}MB`,
    temp_directory: limits.temporaryFolder,
    max_temp_directory_size: `${Math.floor((limits.memoryBytes * TEMPORARY_FACTOR) / 1e6)}MB`,
    autoinstall_known_extensions: "false",
    autoload_known_extensions: "false",
    allow_community_extensions: "false",
  });
  const connection = await instance.connect();
  // Index files never change under their name.
  await connection.run("SET GLOBAL parquet_metadata_cache = true");
  connection.closeSync();
  return instance;
}

/** Runs work that is interrupted when the signal aborts. */
export async function interruptible<Result>(
  connection: DuckDBConnection,
  signal: AbortSignal,
  work: () => Promise<Result>,
): Promise<Result> {
  signal.throwIfAborted();
  const stop = () => connection.interrupt();
  signal.addEventListener("abort", stop, { once: true });
  try {
    return await work();
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

export function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
