import { once } from "node:events";
import type { Command } from "commander";
import { createFormat } from "../app/sinks.ts";
import { loadConfig } from "../config/load.ts";
import { systemClock } from "../core/clock.ts";
import type { JournalPage } from "../core/journal.ts";
import type { Position } from "../core/position.ts";
import { filterOf } from "../delivery/filter.ts";
import { openStateForReading } from "../journal/database.ts";
import { createPages } from "../journal/pages.ts";
import type { Io } from "./io.ts";
import { listOption, withConfig } from "./options.ts";

interface Flags {
  readonly config: string;
  readonly format: string;
  readonly from: "now" | "beginning";
  readonly count?: string;
  readonly organization?: string[];
  readonly service?: string[];
  readonly type?: string[];
}

const LOOK_MS = 250;

export function registerTap(program: Command, io: Io): void {
  withConfig(program.command("tap"), "tidemark tap --service sso --format ocsf")
    .summary("show events as they arrive in the journal")
    .description(
      "Shows events as they arrive in the journal, beside a running process and without disturbing it.",
    )
    .option("--format <name>", "how to write them", "raw")
    .option("--from <where>", "now, or beginning: all that the journal still holds", "now")
    .option("-n, --count <events>", "end after so many")
    .option("--organization <ids>", "only these organizations", listOption)
    .option("--service <names>", "only these services", listOption)
    .option("--type <names>", "only these event types (* stands for anything)", listOption)
    .action((flags: Flags) => tap(flags, io));
}

async function tap(flags: Flags, io: Io): Promise<void> {
  const { config } = loadConfig(flags.config, io.env);
  const db = openStateForReading(config.state);
  try {
    const journal = db.prepare("SELECT value FROM meta WHERE key = 'journal'").pluck().get() as string;
    const pages = createPages(db, journal);
    const format = createFormat(flags.format, {});
    const { organization: organizations, service: services, type: eventTypes } = flags;
    const wants = filterOf({ organizations, services, eventTypes }, undefined, Number.NEGATIVE_INFINITY);
    const oldest = db.prepare("SELECT COALESCE(MIN(page), 1) - 1 FROM bodies").pluck();
    let at: Position = pages.end();
    if (flags.from === "beginning")
      at = { journal, page: oldest.get() as number, event: Number.MAX_SAFE_INTEGER, hash: "" };
    let left = flags.count === undefined ? Number.POSITIVE_INFINITY : Number(flags.count);
    while (left > 0 && !io.signal.aborted) {
      const page: JournalPage | null = pages.next("", at);
      if (page === null) {
        await systemClock.sleep(LOOK_MS, io.signal).catch(() => {});
        continue;
      }
      for (let index = page.first; index < page.first + page.count && left > 0; index++) {
        const event = page.event(index);
        at = page.after(index);
        if (!wants(event)) continue;
        const body = format.encode(event);
        io.stdout.write(typeof body === "string" ? body : Buffer.from(body));
        left--;
        if (!io.stdout.write("\n")) await once(io.stdout, "drain", { signal: io.signal });
      }
    }
  } finally {
    db.close();
  }
}
