import { randomBytes } from "node:crypto";
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * Real components (Kafka, OpenSearch, kcat, …) for tests. Downloads are in one cache folder,
 * `TIDEMARK_TEST_CACHE`, shared by all tests and runs. `TIDEMARK_REQUIRE=kafka,kcat` fetches what is missing
 * and makes a component that cannot be had a failure; without it such tests skip with a visible line.
 */
export type Component =
  | "kafka"
  | "kcat"
  | "opensearch"
  | "versitygw"
  | "rsyslog"
  | "otelcol"
  | "chromium"
  | "promtool"
  | "strace"
  | "helm"
  | "kubeconform"
  | "fsck"
  | "python"
  | "duckdb"
  | "pyarrow"
  | "parquet_cli"
  | "azurite"
  | "fake_gcs"
  | "zstd"
  | "older_build";

/** True when `TIDEMARK_REQUIRE` lists the component, or says `all`. */
export function required(component: Component): boolean {
  const names = (process.env.TIDEMARK_REQUIRE ?? "").split(",").map((name) => name.trim());
  return names.includes(component) || names.includes("all");
}

/** The folder of that name in the cache, made if it is not there. */
function cacheFolder(name: string): string {
  const root = process.env.TIDEMARK_TEST_CACHE || join(homedir(), ".cache", "tidemark-tests");
  const folder = join(root, name);
  mkdirSync(folder, { recursive: true });
  return folder;
}

/**
 * The argument for `describe.skipIf`: true, with a visible line, when the component was not found.
 * Throws when it is required. `found` is whatever the finder gave: undefined, null, false and "" mean no.
 */
export function skipUnless(component: Component, found: unknown, remedy: string): boolean {
  if (found) return false;
  if (required(component))
    throw new Error(`${component} is required by TIDEMARK_REQUIRE but is missing: ${remedy}`);
  process.stderr.write(`SKIPPED, ${component} is missing: ${remedy}\n`);
  return true;
}

/** The full path of a program on PATH. */
export function programOnPath(program: string): string | undefined {
  for (const folder of (process.env.PATH ?? "").split(delimiter)) {
    const path = join(folder, program);
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {}
  }
  return undefined;
}

/**
 * The folder `name` (put the version into it) of the cache, filled once by `fetch`. Parallel test files and
 * runs wait for each other; a fetch that fails leaves nothing behind. Undefined when it was not fetched
 * before and the component is not required: no test run downloads by surprise.
 */
export async function fetchOnce(
  component: Component,
  name: string,
  fetch: (folder: string) => Promise<void>,
): Promise<string | undefined> {
  const folder = join(cacheFolder("."), name);
  if (existsSync(folder)) return folder;
  return required(component) ? makeOnce(name, fetch) : undefined;
}

/** As `fetchOnce`, for a folder that is made from what is there, without a download. */
export async function makeOnce(name: string, make: (folder: string) => Promise<void>): Promise<string> {
  const root = cacheFolder(".");
  const folder = join(root, name);
  if (existsSync(folder)) return folder;
  const release = await lock(join(root, `${name}.lock`));
  const temporary = join(root, `${name}.${randomBytes(4).toString("hex")}.tmp`);
  try {
    if (existsSync(folder)) return folder;
    mkdirSync(temporary);
    await make(temporary);
    renameSync(temporary, folder);
    return folder;
  } finally {
    rmSync(temporary, { recursive: true, force: true });
    release();
  }
}

const LOCK_WAIT_MS_MAX = 15 * 60_000;

/** Another process may hold the lock for minutes; one that died holds it no longer. */
async function lock(path: string): Promise<() => void> {
  const deadline = Date.now() + LOCK_WAIT_MS_MAX;
  for (;;) {
    try {
      writeFileSync(path, String(process.pid), { flag: "wx" });
      return () => rmSync(path, { force: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
    if (!isHeld(path)) rmSync(path, { force: true });
    else if (Date.now() > deadline)
      throw new Error(`${path} is held by another process: it fetches too long`);
    else await sleep(500);
  }
}

function isHeld(path: string): boolean {
  try {
    const pid = Number(readFileSync(path, "utf8"));
    // The file is empty for an instant while its owner writes it.
    if (pid === 0) return true;
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
