import type { SyncProgress } from "../search/index/sync.ts";
import type { Io } from "./io.ts";
import { searchTime } from "./search-output.ts";

const SHOW_EVERY_MS = 250;
const LOG_EVERY_MS = 10_000;

/** What a search is doing, on stderr: in one changing line for a person, now and then a line elsewhere. */
export function searchProgress(io: Io) {
  let shownMs = Date.now();

  function show(text: string): void {
    const everyMs = io.interactive ? SHOW_EVERY_MS : LOG_EVERY_MS;
    if (Date.now() - shownMs < everyMs) return;
    shownMs = Date.now();
    io.stderr.write(io.interactive ? `\r\x1b[K${text}` : `${text}\n`);
  }

  return {
    indexing: ({ done, total, rows }: SyncProgress) =>
      show(`Indexing: ${done} of ${total} parts, ${rows} events.`),
    /** On a terminal the events themselves show how far it is. */
    found: (events: number, timeNs: bigint) => {
      if (!io.interactive) show(`Searching: ${events} events found, at ${searchTime(timeNs)}.`);
    },
    stop() {
      if (io.interactive) io.stderr.write("\r\x1b[K");
    },
  };
}
