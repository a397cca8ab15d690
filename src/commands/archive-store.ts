import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Command, InvalidArgumentError } from "commander";
import { archiveConfigs } from "../app/archives.ts";
import type { ArchiveConfig } from "../archive/config.ts";
import { parseVerifier, type Verifier } from "../archive/log/note.ts";
import { openStore } from "../archive/open.ts";
import { openDirectory } from "../archive/store/directory.ts";
import type { ArchiveStore } from "../archive/store/store.ts";
import { archiveOfLane } from "../config/cluster.ts";
import { loadConfig } from "../config/load.ts";
import type { SinkConfig } from "../config/schema.ts";
import { dayOf } from "../core/archive.ts";
import { systemClock } from "../core/clock.ts";
import { UsageError } from "../core/errors.ts";
import type { Io } from "./io.ts";
import { timeOption, withConfig } from "./options.ts";

/** Where an archive is: a directory by itself, or an archive of the config. */
export interface ArchiveFlags {
  readonly config: string;
  readonly store?: string;
  readonly archive?: string;
  readonly lane?: number;
  readonly json?: boolean;
}

/** The options of every command that reads an archive. */
export function withStore(command: Command, example: string): Command {
  return withConfig(command, example)
    .option("--store <directory>", "an archive in this directory; no config is needed")
    .option("--archive <name>", "the archive of the config, where it has more than one")
    .option(...LANE_OPTION);
}

/** In a cluster each lane has an archive of its own. */
export const LANE_OPTION = [
  "--lane <number>",
  "the lane, where the config has a cluster: each lane has an archive of its own",
  laneNumber,
] as const;

function laneNumber(text: string): number {
  if (!/^\d{1,4}$/.test(text)) throw new InvalidArgumentError("Write the number of a lane, from 0 on.");
  return Number(text);
}

export async function openNamed(
  flags: ArchiveFlags,
  io: Io,
): Promise<{ store: ArchiveStore; config: ArchiveConfig | undefined }> {
  if (flags.store !== undefined) {
    if (!existsSync(join(flags.store, "log")))
      throw new UsageError(`${flags.store} holds no archive: it has no folder "log".`);
    return { store: await openDirectory(flags.store), config: undefined };
  }
  const config = placedArchive(flags, io);
  if ("directory" in config.store && !existsSync(config.store.directory))
    throw new UsageError(
      `${config.store.directory} is not there: mount the archive's disk, or correct \`store\` in the config. Before the first run there is no archive.`,
    );
  return { store: await openStore(config.store, systemClock), config };
}

/** A day as 2026-01-31, from a date, a time or how long ago. */
export function dayOption(text: string): string {
  return dayOf(timeOption(text));
}

export function checkDays({ from, to }: { readonly from?: string; readonly to?: string }): void {
  if (from !== undefined && to !== undefined && from > to)
    throw new UsageError(`--to (${to}) is before --from (${from}).`);
}

/** A file that the user named with an option. */
export function readNamed(option: string, file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new UsageError(`The file of ${option} cannot be read: ${(error as Error).message}.`);
  }
}

/** With origin and place: in a cluster those of the lane. */
export function placedArchive(flags: ArchiveFlags, io: Io): ArchiveConfig & { readonly name: string } {
  const { config } = loadConfig(flags.config, io.env);
  const own = archiveOf(flags, io);
  if (config.cluster === undefined) return own;
  if (flags.lane === undefined)
    throw new UsageError(
      `In a cluster each lane has an archive of its own, below "${own.origin}": name one with --lane, for example --lane 0.`,
    );
  return archiveOfLane(own, flags.lane);
}

export function archiveOf(
  flags: ArchiveFlags,
  io: Io,
): SinkConfig & ArchiveConfig & { readonly name: string } {
  const { config } = loadConfig(flags.config, io.env);
  const all = archiveConfigs(config);
  const found =
    flags.archive === undefined && all.length === 1 ? all[0] : all.find(({ name }) => name === flags.archive);
  if (found !== undefined) return found;
  const names = all.map(({ name }) => name).join(", ");
  throw new UsageError(
    all.length === 0
      ? "The config has no archive: add a sink with type: archive, or name one with --store."
      : `Name one of the archives with --archive: ${names}.`,
  );
}

/** A public key as text, or in a file. */
export function keyOption(text: string): Verifier {
  try {
    return parseVerifier(existsSync(text) ? readFileSync(text, "utf8").trim().split("\n")[0]! : text);
  } catch (error) {
    throw new UsageError(
      `The key cannot be used: ${(error as Error).message} "${text.slice(0, 100)}" is neither such a key nor a file with one.`,
    );
  }
}
