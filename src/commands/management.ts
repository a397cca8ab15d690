import { readFile } from "node:fs/promises";
import { text as readAll } from "node:stream/consumers";
import type { Command } from "commander";
import type { ClusterClient } from "../app/cluster/client.ts";
import type { Clock } from "../core/clock.ts";
import { UsageError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import type { ManagementClient, SystemClient } from "../directory/management.ts";
import type { SystemIdentity } from "../directory/signature.ts";
import type { SystemSettings } from "../directory/system.ts";
import type { ImportDefinition } from "../imports/config.ts";
import type { StartContext } from "../imports/context.ts";
import type { ImportState } from "../imports/store/open.ts";
import type { Io } from "./io.ts";
import { withConfig } from "./options.ts";

/** The parts of the program that the management commands use. */
export interface ManagementContext {
  readonly accounts: readonly string[];
  readonly definitions: readonly ImportDefinition[];
  /** Why an import cannot be started with this config's shard. */
  readonly refusal?: StartContext["refusal"];
  readonly system: SystemSettings;
  /** The client of an account, opened once. */
  management(account: string): ManagementClient;
  /** A client that signs as this system, at the account's address. */
  openSystem(account: string, identity: SystemIdentity): SystemClient;
  /** The machines of a cluster, connected once; absent where the config has one state file. */
  readonly cluster?: (() => Promise<ClusterClient>) | undefined;
  /** The state file, to be read beside a running process, or to be changed. */
  database(mode: "read" | "write"): ImportState;
  readonly clock: Clock;
  readonly log: Log;
  close(): Promise<void>;
}

export type OpenManagement = (configFile: string) => Promise<ManagementContext>;

export interface CommonFlags {
  readonly config: string;
  readonly json?: boolean;
}

export interface AccountFlags extends CommonFlags {
  readonly account?: string;
  readonly organization?: string;
}

/** A subcommand with `--config` and `--json`. */
export function subcommand(parent: Command, name: string, summary: string, example: string): Command {
  const command = parent
    .command(name)
    .summary(summary)
    .description(`${summary[0]?.toUpperCase()}${summary.slice(1)}.`)
    .option("--json", "print JSON");
  return withConfig(command, example);
}

export function withAccount(command: Command): Command {
  return command
    .option("--account <name>", "the account of the config; needed where there are several")
    .option("--organization <id>", "the organization; multi-tenant administrators must name it");
}

/** Opens the context, runs, and closes it whatever happens. */
export async function using<T>(
  open: OpenManagement,
  flags: CommonFlags,
  work: (context: ManagementContext) => Promise<T>,
): Promise<T> {
  const context = await open(flags.config);
  try {
    return await work(context);
  } finally {
    await context.close();
  }
}

/** The account that is meant: the one named, or the only one. */
export function accountOf(context: ManagementContext, flags: AccountFlags): string {
  const names = context.accounts;
  if (flags.account === undefined && names.length === 1) return names[0]!;
  if (flags.account !== undefined && names.includes(flags.account)) return flags.account;
  const choices = names.join(", ") || "none";
  throw new UsageError(
    flags.account === undefined
      ? `The config has several accounts: name one with --account (${choices}).`
      : `There is no account "${flags.account}" in the config; it has: ${choices}.`,
  );
}

export function callOptions(flags: AccountFlags, io: Io) {
  return { organization: flags.organization, signal: io.signal };
}

export function printJson(io: Io, value: unknown): void {
  io.stdout.write(`${JSON.stringify(value, null, 2)}\n`);
}

type Cell = string | number | null | undefined;

const CELL_LENGTH_MAX = 60;

/** Columns as wide as their widest cell, cut at 60 unless another length is given. */
export function printTable(
  io: Io,
  head: readonly string[],
  rows: readonly (readonly Cell[])[],
  lengthMax = CELL_LENGTH_MAX,
): void {
  io.stdout.write(tableText(head, rows, lengthMax));
}

function tableText(head: readonly string[], rows: readonly (readonly Cell[])[], lengthMax: number): string {
  const cells = [head, ...rows].map((row) => row.map((cell) => cellText(cell, lengthMax)));
  const widths = head.map((_, at) => Math.max(...cells.map((row) => row[at]?.length ?? 0)));
  const line = (row: readonly string[]) =>
    row
      .map((cell, at) => (at === row.length - 1 ? cell : cell.padEnd(widths[at]!)))
      .join("  ")
      .trimEnd();
  return `${cells.map(line).join("\n")}\n`;
}

/** Control characters of the service's words must not reach a terminal. */
function cellText(cell: Cell, lengthMax: number): string {
  const words = String(cell ?? "").replace(/[\u0000-\u001f\u007f-\u009f]/g, " ");
  return words.length > lengthMax ? `${words.slice(0, lengthMax - 1)}…` : words;
}

/** A JSON object from a file, or from stdin when the name is `-`. */
export async function readJsonObject(file: string, io: Io): Promise<Record<string, unknown>> {
  let content: string;
  try {
    content =
      file === "-"
        ? await readAll(io.stdin as NodeJS.ReadableStream & AsyncIterable<unknown>)
        : await readFile(file, "utf8");
  } catch (error) {
    throw new UsageError(`${file} cannot be read: ${(error as Error).message}.`, { cause: error });
  }
  let value: unknown;
  try {
    value = JSON.parse(content);
  } catch (error) {
    throw new UsageError(`${file} is not JSON: ${(error as Error).message}.`, { cause: error });
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new UsageError(`${file} holds no JSON object.`);
  }
  return value as Record<string, unknown>;
}

/** `--set path.to.field=value`; the value is JSON where it reads as JSON, else text. */
export function assignmentsOf(assignments: readonly string[]): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  for (const assignment of assignments) {
    const [, path, value] = /^([^=]+)=(.*)$/s.exec(assignment) ?? [];
    if (path === undefined || value === undefined) {
      throw new UsageError(`Write --set as field=value, not ${JSON.stringify(assignment)}.`);
    }
    assign(result, path.split("."), parsedOrText(value));
  }
  return result;
}

function assign(target: Record<string, unknown>, path: readonly string[], value: unknown): void {
  const [name, ...rest] = path as [string, ...string[]];
  if (["__proto__", "constructor", "prototype"].includes(name)) throw new UsageError(`${name} is no field.`);
  if (rest.length === 0) {
    target[name] = value;
    return;
  }
  const inner = target[name];
  const next = typeof inner === "object" && inner !== null ? (inner as Record<string, unknown>) : {};
  target[name] = next;
  assign(next, rest, value);
}

function parsedOrText(value: string): unknown {
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

export function collect(value: string, previous: readonly string[]): readonly string[] {
  return [...previous, value];
}
