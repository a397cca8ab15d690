import type { Command } from "commander";
import { createServiceLook } from "../app/service-look.ts";
import { type Reconciliation, reconcileArchive } from "../archive/evidence/reconcile.ts";
import { openStore } from "../archive/open.ts";
import { loadConfig } from "../config/load.ts";
import type { Config } from "../config/schema.ts";
import { dayOf } from "../core/archive.ts";
import { systemClock } from "../core/clock.ts";
import { UsageError } from "../core/errors.ts";
import { erasuresOf, type IsErased } from "../journal/archive/erasures.ts";
import { openStateForReading } from "../journal/database.ts";
import { type ArchiveFlags, LANE_OPTION, placedArchive } from "./archive-store.ts";
import { change } from "./change.ts";
import type { Io } from "./io.ts";
import { listOption, timeOption, withConfig } from "./options.ts";

interface Flags extends ArchiveFlags {
  readonly from: number;
  readonly to?: number;
  readonly organization?: string[];
  readonly record: boolean;
}

export function registerReconcile(archive: Command, io: Io): void {
  withConfig(archive.command("reconcile"), "tidemark archive reconcile --from 30d")
    .summary("compare closed days with the service, event by event")
    .description(
      "Asks the service for the identities of all events of closed days, compares them with the archive, and records the result in the archive's log. Works for days that the service still keeps. Exit code 1: the service has events that the archive lacks, and they are named.",
    )
    .requiredOption("--from <date>", "the first day, or how long ago (30d)", timeOption)
    .option("--to <date>", "the last day; yesterday by default", timeOption)
    .option("--organization <ids>", "only these organizations", listOption)
    .option("--archive <name>", "the archive, where the config has more than one")
    .option(...LANE_OPTION)
    .option("--no-record", "leave no entry in the log")
    .option("--json", "print one JSON object")
    .action((flags: Flags) => reconcile(flags, io));
}

async function reconcile(flags: Flags, io: Io): Promise<void> {
  const { config } = loadConfig(flags.config, io.env);
  const own = placedArchive(flags, io);
  const askedMs = systemClock.now();
  const from = dayOf(flags.from);
  const to = dayOf(flags.to ?? askedMs - 86_400_000);
  if (to < from) throw new UsageError("--to must not be before --from.");
  const retentionMs = Math.min(...config.accounts.map(({ retention }) => retention));
  const store = await openStore(own.store, systemClock);
  const service = createServiceLook(config, systemClock);
  let result: Reconciliation;
  try {
    const organizations = new Set(flags.organization?.map((id) => id.toLowerCase()));
    const query = {
      from,
      to,
      organizations,
      keptFromMs: askedMs - retentionMs,
      isErased: erasuresIn(config, own.name),
    };
    result = await reconcileArchive(store, service.ask, query, io.signal, ({ day, organization }) => {
      if (io.interactive) io.stderr.write(`\r\x1b[K${day} ${organization}`);
    });
    if (io.interactive) io.stderr.write("\r\x1b[K");
  } finally {
    await service.close();
    await store.close();
  }
  if (flags.json) io.stdout.write(`${JSON.stringify({ from, to, ...result })}\n`);
  else io.stdout.write(textOf(result, from, to));
  if (result.missing > 0) io.setExitCode(1);
  if (!flags.record || result.days === 0) return;
  const { days, organizations, returned, held, erased, onlyHeld, missing } = result;
  const counts = { days, organizations, returned, held, erased, onlyHeld, missing };
  const operation = { kind: "reconcile", from, to, askedMs, ...counts } as const;
  // With --json the one object on stdout is all that a program should see.
  const quiet = flags.json ? { ...io, stdout: io.stderr } : io;
  await change(quiet, config, "archive", { archive: own.name, lane: flags.lane, operation });
}

/** In a cluster the state is not on this machine: what was erased is then named as missing. */
function erasuresIn(config: Config, archive: string): IsErased {
  if (config.cluster !== undefined) return () => false;
  const db = openStateForReading(config.state);
  try {
    return erasuresOf(db, archive);
  } finally {
    db.close();
  }
}

function textOf(result: Reconciliation, from: string, to: string): string {
  const number = (value: number) => value.toLocaleString("en-US");
  const { days, organizations, returned, held, erased, onlyHeld, missing, forgotten, incomplete } = result;
  if (days === 0)
    return `No closed day from ${from} to ${to} can be compared${forgotten > 0 ? `: the service has forgotten ${number(forgotten)} days of organizations` : ""}.\n`;
  return [
    ...incomplete.map(
      (day) =>
        `${day.day} ${day.organization}: MISSING ${number(day.missing)} of ${number(day.returned)} events, among them ${day.missingIds.join(", ")}`,
    ),
    `Compared ${number(days)} days of ${number(organizations)} organizations from ${from} to ${to}, by identities, not by bytes.`,
    `The service returned ${number(returned)} events; the archive holds ${number(held)}.`,
    ...(erased > 0 ? [`${number(erased)} were erased from the archive on the record.`] : []),
    ...(onlyHeld > 0
      ? [`${number(onlyHeld)} are only in the archive: the service no longer returns them.`]
      : []),
    ...(forgotten > 0
      ? [`${number(forgotten)} days of organizations are past the service's retention.`]
      : []),
    missing > 0
      ? `${number(missing)} are missing from the archive. "tidemark reconcile --since ${from}" fetches them; they are archived as an addition on the next day.`
      : "Nothing is missing from the archive.",
    "",
  ].join("\n");
}
