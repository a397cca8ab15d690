import { homedir, setPriority } from "node:os";
import { join } from "node:path";
import { type Command, Option } from "commander";
import { type OpenedSearch, openConfiguredSearch, openStoreSearch } from "../app/search.ts";
import { loadConfig } from "../config/load.ts";
import { closestOf } from "../config/suggest.ts";
import { findQueryOf } from "../search/engine/search.ts";
import { costOf, refuseBroad } from "../search/find/cost.ts";
import { countRows, topValues } from "../search/find/counts.ts";
import type { Hit } from "../search/find/fetch.ts";
import { type Filter, fieldOf, SEARCH_OUTCOMES } from "../search/find/filter.ts";
import { type ShownEvent, sessionsOf } from "../search/find/story.ts";
import { type ArchiveFlags, withStore } from "./archive-store.ts";
import type { Io } from "./io.ts";
import { countOption, listOption, sizeOption, timeOption } from "./options.ts";
import { recorded, type Shown } from "./search-access.ts";
import { type SearchFlags, searchFilter } from "./search-filter.ts";
import {
  lineWriter,
  OUTPUTS,
  printable,
  searchTime,
  sessionText,
  shownHit,
  writeOut,
} from "./search-output.ts";
import { searchProgress } from "./search-progress.ts";

const TABLE_ROWS = 1000;
const TOP_VALUES = 20;
const LOW_PRIORITY = 10;

export function registerSearch(program: Command, io: Io): void {
  withStore(
    program.command("search"),
    "tidemark search --user alice@example.com --since 2025-09-01 --until 2025-09-08",
  )
    .summary("search everything that is held")
    .description(
      "Searches closed days, open days and the journal alike, beside a running process and without disturbing it. Conditions apply together; a repeated flag, or a list with commas, gives alternatives. Events come in time order.",
    )
    .option("--user <name>", "a person by name, e-mail address or id, as actor or target", listOption)
    .option("--ip <address>", "where the request came from, or the device's address", listOption)
    .option("--event-type <type>", "the event type (* matches anything)", listOption)
    .option("--service <name>", "the service (* matches anything)", listOption)
    .option("--organization <id>", "the organization", listOption)
    .option("--outcome <outcome>", `one of ${SEARCH_OUTCOMES.join(", ")}`, listOption)
    .option("--application <name>", "an application by name or id", listOption)
    .option("--device <name>", "a device by host name, label or id", listOption)
    .option("--correlation <id>", "the correlation id", listOption)
    .option("--id <id>", "the event's id or identity", listOption)
    .option(
      "--text <text>",
      "events that contain this text, without regard to case; reads the events themselves",
    )
    .option(
      "--since <time>",
      "from then on: 2025-09-01, a time with its zone, or how long ago, such as 7d",
      timeOption,
    )
    .option("--until <time>", "before then", timeOption)
    .option("--story <name>", "the time line of a person or device over all services, by session")
    .addOption(
      new Option("-o, --output <form>", "how events are written").choices([...OUTPUTS]).default("table"),
    )
    .option("--json", "the same as --output json; for counts, JSON instead of a table")
    .option("--count", "only how many there are, from the index")
    .option("--by <field>", "the most frequent values of a field, from the index")
    .option("-n, --limit <events>", "end after so many", countOption)
    .option("--newest-first", "the newest event first")
    .option("--scan-max <size>", "how much may be read to answer --text", sizeOption, 20_000_000_000)
    .action((flags: SearchFlags) => search(flags, io));
}

function search(flags: SearchFlags, io: Io): Promise<void> {
  const filter = searchFilter(flags);
  const field = flags.by === undefined ? undefined : fieldOf(flags.by, closestOf);
  const { config, store, archive, scanMax, ...query } = flags;
  const asked = { operation: "search", organizations: flags.organization ?? null, query } as const;
  return recorded(flags, io, asked, (shown) => answer(flags, filter, field, io, shown));
}

async function answer(
  flags: SearchFlags,
  filter: Filter,
  field: string | undefined,
  io: Io,
  shown: Shown,
): Promise<void> {
  const progress = searchProgress(io);
  const opened = await openNamedSearch(flags, io);
  try {
    setPriority(LOW_PRIORITY);
    await opened.search.sync(io.signal, progress.indexing);
    if (filter.text !== undefined) await refuseCostly(opened, filter, flags.scanMax, io);
    if (flags.story !== undefined) await tellStory(opened, filter, flags, io, shown);
    else if (field !== undefined) await countBy(opened, filter, field, flags, io);
    else if (flags.count) await count(opened, filter, flags, io);
    else await list(opened, filter, flags, io, shown, progress.found);
  } finally {
    progress.stop();
    await opened.close();
  }
}

export async function openNamedSearch(flags: ArchiveFlags, io: Io): Promise<OpenedSearch> {
  if (flags.store !== undefined)
    return openStoreSearch(flags.store, join(io.env.XDG_CACHE_HOME ?? join(homedir(), ".cache"), "tidemark"));
  const { config } = loadConfig(flags.config, io.env);
  return openConfiguredSearch(config, flags.archive);
}

async function refuseCostly(
  { search }: OpenedSearch,
  filter: Filter,
  scanMax: number,
  io: Io,
): Promise<void> {
  const cost = await costOf(search, findQueryOf(filter), io.signal);
  refuseBroad(
    cost,
    scanMax,
    "Narrow it with --since and --until, --organization, --user, --service or --event-type, or allow more with --scan-max 50GB.",
  );
}

async function list(
  opened: OpenedSearch,
  filter: Filter,
  flags: SearchFlags,
  io: Io,
  count: Shown,
  onFound: (events: number, timeNs: bigint) => void,
): Promise<void> {
  const output = flags.json ? "json" : flags.output;
  const limit = flags.limit ?? (output === "table" ? TABLE_ROWS : undefined);
  const { head, line } = lineWriter(output);
  const query = { ...findQueryOf(filter), descending: flags.newestFirst, limit: limit && limit + 1 };
  let shown = 0;
  count.events = 0;
  let isMore = false;
  for await (const hits of opened.search.find(query, io.signal)) {
    for (const hit of hits) {
      io.signal.throwIfAborted();
      if (shown === limit) {
        isMore = true;
        break;
      }
      if (shown++ === 0 && head !== "") io.stdout.write(head);
      count.events = shown;
      io.stdout.write(line(hit));
      await writeOut(io, "\n");
    }
    const last = hits.at(-1);
    if (last !== undefined) onFound(shown, last.timeNs);
  }
  if (isMore && flags.limit === undefined)
    io.stderr.write(`${shown} events are shown and there are more: use --limit, or --output raw for all.\n`);
  if (shown === 0) io.stderr.write(`No event was found in ${opened.holdings.place}.\n`);
}

async function count(opened: OpenedSearch, filter: Filter, flags: SearchFlags, io: Io): Promise<void> {
  const query = findQueryOf(filter);
  let found = 0;
  if (filter.text === undefined)
    found = await opened.search.query(io.signal, (connection, snapshot) =>
      countRows(connection, snapshot, query),
    );
  else for await (const hits of opened.search.find(query, io.signal)) found += hits.length;
  io.stdout.write(flags.json ? `${JSON.stringify({ count: found, from: fromOf(filter) })}\n` : `${found}\n`);
}

/** Counts are labelled with where they come from (A25). */
function fromOf(filter: Filter): "index" | "events" {
  return filter.text === undefined ? "index" : "events";
}

async function countBy(
  opened: OpenedSearch,
  filter: Filter,
  field: string,
  flags: SearchFlags,
  io: Io,
): Promise<void> {
  const query = findQueryOf(filter);
  const limit = flags.limit ?? TOP_VALUES;
  const values =
    filter.text === undefined
      ? await opened.search.query(io.signal, (connection, snapshot) =>
          topValues(connection, snapshot, query, field, limit),
        )
      : await countedHits(opened.search.find(query, io.signal), field as keyof ShownEvent, limit);
  if (flags.json) {
    io.stdout.write(`${JSON.stringify({ field, from: fromOf(filter), values })}\n`);
    return;
  }
  const width = Math.max(5, ...values.map(({ count: found }) => String(found).length));
  io.stdout.write(`${"COUNT".padStart(width)}  ${field.toUpperCase()} (from the ${fromOf(filter)})\n`);
  for (const { value, count: found } of values)
    io.stdout.write(`${String(found).padStart(width)}  ${printable(value ?? "-")}\n`);
}

async function countedHits(found: AsyncIterable<readonly Hit[]>, field: keyof ShownEvent, limit: number) {
  const counts = new Map<string | null, number>();
  for await (const hits of found)
    for (const hit of hits) {
      const value = shownHit(hit)[field];
      const text = value === null ? null : String(value);
      counts.set(text, (counts.get(text) ?? 0) + 1);
    }
  return [...counts]
    .map(([value, n]) => ({ value, count: n }))
    .sort((a, b) => b.count - a.count)
    .slice(0, limit);
}

async function tellStory(
  opened: OpenedSearch,
  filter: Filter,
  flags: SearchFlags,
  io: Io,
  shown: Shown,
): Promise<void> {
  shown.events = 0;
  async function* events(): AsyncGenerator<ShownEvent> {
    const query = { ...findQueryOf(filter), limit: flags.limit };
    for await (const hits of opened.search.find(query, io.signal))
      for (const hit of hits) {
        shown.events!++;
        yield shownHit(hit);
      }
  }
  let number = 0;
  for await (const session of sessionsOf(events())) {
    number++;
    if (flags.json || flags.output === "json") {
      const { firstNs, lastNs, events: own, ...facts } = session;
      const times = { first: searchTime(firstNs), last: searchTime(lastNs) };
      await writeOut(
        io,
        `${JSON.stringify({ session: number, ...times, ...facts, events: own.map(plain) })}\n`,
      );
    } else await writeOut(io, `${sessionText(session, number)}\n`);
  }
  if (number === 0)
    io.stderr.write(`No event of ${printable(flags.story!)} was found in ${opened.holdings.place}.\n`);
}

/** Without the columns that only the index needs. */
export function plain(shown: ShownEvent): Record<string, unknown> {
  const { time_ns, service, event_type, outcome, actor, target, ip, country, application, device, id } =
    shown;
  const time = searchTime(time_ns as bigint);
  return { time, service, event_type, outcome, actor, target, ip, country, application, device, id };
}
