import { UsageError } from "../../core/errors.ts";
import type { FindQuery, Search } from "../engine/search.ts";

/** What a query has to read beyond the index. */
export interface Cost {
  readonly events: number;
  readonly bytes: number;
}

/** A measured pace of reading, unpacking and looking through events; only for the estimate in the message. */
const BYTES_PER_SECOND = 200_000_000;

export async function costOf(search: Search, query: FindQuery, signal: AbortSignal): Promise<Cost> {
  return search.query(signal, async (connection, snapshot) => {
    const source = snapshot.source(query.fromNs, query.toNs);
    if (source === null) return { events: 0, bytes: 0 };
    const { sql, values } = query.condition;
    const reader = await connection.runAndReadAll(
      `SELECT count(*), coalesce(sum(length), 0) FROM ${source} WHERE ${sql}`,
      [...values],
    );
    const [events, bytes] = reader.getRows()[0]!;
    return { events: Number(events), bytes: Number(bytes) };
  });
}

/** Refuses a query that would read more than the limit, with its cost and how to narrow it. */
export function refuseBroad({ events, bytes }: Cost, bytesMax: number, how: string): void {
  if (bytes <= bytesMax) return;
  const seconds = Math.max(1, Math.round(bytes / BYTES_PER_SECOND));
  throw new UsageError(
    `This query is too broad: the index cannot answer it, so ${events.toLocaleString("en")} events (${sizeText(bytes)}) would have to be read, about ${seconds} s. The limit is ${sizeText(bytesMax)}. ${how}`,
  );
}

function sizeText(bytes: number): string {
  if (bytes >= 1e9) return `${(bytes / 1e9).toFixed(1)} GB`;
  return bytes >= 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : `${bytes} bytes`;
}
