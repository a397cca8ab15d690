import { once } from "node:events";
import { type Command, Option } from "commander";
import { createFormat } from "../app/sinks.ts";
import { loadConfig } from "../config/load.ts";
import { systemClock } from "../core/clock.ts";
import type { JournalPage } from "../core/journal.ts";
import { type Position, startOf } from "../core/position.ts";
import { filterOf } from "../delivery/filter.ts";
import { openStateForReading, type State } from "../journal/database.ts";
import { createPages, type Pages } from "../journal/pages.ts";
import type { Io } from "./io.ts";
import { countOption, listOption, withConfig } from "./options.ts";

interface Flags {
  readonly config: string;
  readonly format: string;
  readonly from: "now" | "beginning";
  readonly count?: number;
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
    .addOption(
      new Option("--from <where>", "now, or beginning: all that the journal still holds")
        .choices(["now", "beginning"])
        .default("now"),
    )
    .option("-n, --count <events>", "end after so many", countOption)
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
    const next = createLook(db, pages, io);
    let at = flags.from === "beginning" ? startOf(journal) : pages.end();
    let left = flags.count ?? Number.POSITIVE_INFINITY;
    while (left > 0 && !io.signal.aborted) {
      const page = next(at);
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
        if (io.stdout.write("\n")) continue;
        await once(io.stdout, "drain", { signal: io.signal }).catch(() => {});
        if (io.signal.aborted) return;
      }
    }
  } finally {
    db.close();
  }
}

/** The page after a position. What the sinks have passed may be trimmed before it could be shown; that is told. */
function createLook(db: State, pages: Pages, io: Io): (after: Position) => JournalPage | null {
  const oldest = db.prepare("SELECT MIN(page) FROM bodies").pluck();
  const gone = db
    .prepare(
      `SELECT COALESCE(SUM(events), 0) FROM pages WHERE reader IS NULL AND number < @first
         AND (number > @page OR (number = @page AND events > @event))`,
    )
    .pluck();
  return db.transaction((after: Position) => {
    const first = (oldest.get() as number | null) ?? Number.MAX_SAFE_INTEGER;
    if (after.page === 0 || after.page >= first) return pages.next("", after);
    const { page, event } = after;
    const count = gone.get({ first, page, event }) as number;
    if (count === 0) return pages.next("", after);
    io.stderr.write(`${count} events were delivered and trimmed before they could be shown.\n`);
    return pages.next(
      "",
      first === Number.MAX_SAFE_INTEGER ? pages.end() : { ...after, page: first, event: 0 },
    );
  });
}
