import { openAccesses } from "../app/search-folder.ts";
import { loadConfig } from "../config/load.ts";
import { systemClock } from "../core/clock.ts";
import { UsageError } from "../core/errors.ts";
import type { ArchiveFlags } from "./archive-store.ts";
import type { Io } from "./io.ts";

export interface Asked {
  readonly operation: "search" | "sql";
  /** Null for all. */
  readonly organizations: readonly string[] | null;
  readonly query: unknown;
}

/** How many events were shown so far; null where the answer is a number or a list of values. */
export interface Shown {
  events: number | null;
}

/**
 * Runs a query of a command and leaves an access entry, also when it fails or is interrupted. An archive that is
 * searched without a config has no access log.
 */
export async function recorded(
  flags: ArchiveFlags,
  io: Io,
  asked: Asked,
  work: (shown: Shown) => Promise<void>,
): Promise<void> {
  const shown: Shown = { events: null };
  if (flags.store !== undefined) return work(shown);
  const { config } = loadConfig(flags.config, io.env);
  const accesses = openAccesses(config, systemClock);
  accesses.prepare();
  let status = 200;
  try {
    await work(shown);
  } catch (error) {
    status = error instanceof UsageError ? 400 : 500;
    throw error;
  } finally {
    const user = io.env.SUDO_USER ?? io.env.USER ?? "unknown";
    accesses.append({ who: `command: ${user}`, address: null, ...asked, status, ...shown });
  }
}
