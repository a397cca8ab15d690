import { mkdtempSync, rmSync } from "node:fs";
import { setPriority, tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import { UsageError } from "../core/errors.ts";
import { formatDuration } from "../core/time.ts";
import { timeoutSignal } from "../core/timeout.ts";
import { EVENT_COLUMNS, runSql, StuckQueryError } from "../search/sql/run-sql.ts";
import { type ArchiveFlags, withStore } from "./archive-store.ts";
import type { Io } from "./io.ts";
import { durationOption, sizeOption } from "./options.ts";
import { openNamedSearch } from "./search.ts";
import { recorded } from "./search-access.ts";
import { printable, writeOut } from "./search-output.ts";
import { searchProgress } from "./search-progress.ts";

interface Flags extends ArchiveFlags {
  readonly timeout: number;
  readonly memory: number;
}

const LOW_PRIORITY = 10;
const TIMEOUT_MS = 60_000;
const MEMORY_BYTES = 200_000_000;
const WIDTH_MAX = 60;

export function registerSql(program: Command, io: Io): void {
  withStore(
    program.command("sql"),
    'tidemark sql "SELECT event_type, count(*) AS n FROM events GROUP BY 1 ORDER BY n DESC LIMIT 10"',
  )
    .summary("ask the index with SQL")
    .description(
      `Runs one SELECT (DuckDB's SQL) over the view "events", which has a row for each event that is held. It reads the index alone and changes nothing.\n\nColumns:\n${EVENT_COLUMNS.map(({ name, description }) => `  ${name.padEnd(16)}${description}`).join("\n")}`,
    )
    .argument("<select>", "the query")
    .option("--json", "one JSON object for each row")
    .option("--timeout <duration>", "give up after this time", durationOption, TIMEOUT_MS)
    .option("--memory <size>", "memory of the query", sizeOption, MEMORY_BYTES)
    .action((text: string, flags: Flags) => sql(text, flags, io));
}

function sql(text: string, flags: Flags, io: Io): Promise<void> {
  const asked = { operation: "sql", organizations: null, query: text } as const;
  return recorded(flags, io, asked, () => answer(text, flags, io)).catch((error: unknown) => {
    if (!(error instanceof StuckQueryError) || io.kill === undefined) throw error;
    io.stderr.write(`${error.message}\n`);
    io.kill();
  });
}

async function answer(text: string, flags: Flags, io: Io): Promise<void> {
  const progress = searchProgress(io);
  const opened = await openNamedSearch(flags, io);
  const timeout = timeoutSignal(flags.timeout);
  // A folder of its own: other users have theirs in the same place.
  const temporaryFolder = mkdtempSync(join(tmpdir(), "tidemark-sql-"));
  try {
    setPriority(LOW_PRIORITY);
    const indexed = await opened.search.sync(io.signal, progress.indexing);
    const options = {
      memoryBytes: flags.memory,
      temporaryFolder,
      signal: AbortSignal.any([io.signal, timeout]),
      ...(io.memoryBytes === undefined ? {} : { usedBytes: io.memoryBytes }),
    };
    await runSql(indexed, text, options, async ({ columns, rows }) => {
      if (flags.json) {
        for await (const some of rows)
          for (const row of some)
            await writeOut(
              io,
              `${JSON.stringify(Object.fromEntries(columns.map((name, at) => [name, row[at]])))}\n`,
            );
      } else await table(columns, rows, io);
    });
  } catch (error) {
    if (io.signal.aborted || !timeout.aborted) throw error;
    const message = `The query took longer than ${formatDuration(flags.timeout)} and was stopped. Narrow it with WHERE time >= …, or allow more with --timeout.`;
    throw error instanceof StuckQueryError ? new StuckQueryError(message) : new UsageError(message);
  } finally {
    progress.stop();
    await opened.close();
    rmSync(temporaryFolder, { recursive: true, force: true });
  }
}

/** Widths come from the first rows; later ones may be wider. */
async function table(
  columns: readonly string[],
  rows: AsyncIterable<readonly unknown[][]>,
  io: Io,
): Promise<void> {
  let widths: number[] | undefined;
  const line = (cells: readonly string[]) =>
    `${cells
      .map((cell, at) => cell.padEnd(widths![at]!))
      .join("  ")
      .trimEnd()}\n`;
  const cellsOf = (row: readonly unknown[]) =>
    row.map((value) => printable(value === null ? "-" : String(value)));
  for await (const some of rows) {
    const shown = some.map(cellsOf);
    if (widths === undefined) {
      widths = columns.map((name, at) =>
        Math.min(WIDTH_MAX, Math.max(name.length, ...shown.map((cells) => cells[at]!.length))),
      );
      io.stdout.write(line(columns));
    }
    for (const cells of shown) await writeOut(io, line(cells));
  }
  if (widths === undefined) io.stderr.write("No rows.\n");
}
