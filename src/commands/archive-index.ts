import { setPriority } from "node:os";
import type { Command } from "commander";
import { findQueryOf } from "../search/engine/search.ts";
import { countRows } from "../search/find/counts.ts";
import { type ArchiveFlags, withStore } from "./archive-store.ts";
import type { Io } from "./io.ts";
import { openNamedSearch } from "./search.ts";
import { searchProgress } from "./search-progress.ts";

const LOW_PRIORITY = 10;

export function registerRebuildIndex(archive: Command, io: Io): void {
  withStore(archive.command("rebuild-index"), "tidemark archive rebuild-index")
    .summary("make the index of search again from the data files")
    .description(
      "Removes the local index of search and makes it again, from the data files of the archive and the journal. The new index has the same content. The archive is only read. A search finds missing or damaged index files by itself, so this is needed only if you doubt the index or want to have it before the first search.",
    )
    .option("--json", "the result as JSON")
    .action((flags: ArchiveFlags) => rebuild(flags, io));
}

async function rebuild(flags: ArchiveFlags, io: Io): Promise<void> {
  const progress = searchProgress(io);
  const opened = await openNamedSearch(flags, io);
  try {
    setPriority(LOW_PRIORITY);
    const { parts } = await opened.search.rebuild(io.signal, progress.indexing);
    progress.stop();
    const all = await opened.search.query(io.signal, (connection, snapshot) =>
      countRows(connection, snapshot, findQueryOf({})),
    );
    const closed = parts.reduce((sum, { rows }) => sum + rows, 0);
    const open = all - closed;
    io.stdout.write(
      flags.json
        ? `${JSON.stringify({ parts: parts.length, closedEvents: closed, openEvents: open })}\n`
        : `The index of ${opened.holdings.place} was made again: ${parts.length} closed parts with ${closed} events, and ${open} events of the journal.\n`,
    );
  } finally {
    progress.stop();
    await opened.close();
  }
}
