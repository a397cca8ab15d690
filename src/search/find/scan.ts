import type { DuckDBConnection } from "@duckdb/node-api";
import { interruptible, loadDuckDb } from "../engine/duckdb.ts";
import { all, type Condition } from "./filter.ts";
import type { FramePlace, FrameReader } from "./frames.ts";
import { between, type Narrowed, type Slice } from "./select.ts";
import type { QuerySnapshot } from "./snapshot.ts";
import type { TextEngine } from "./text-engine.ts";

/** With more places than this most rows are wanted, and a list of them would cost more than it saves. */
const PLACES_MAX = 20_000;
const CHUNK_ROWS = 2000;

interface TextPlace extends FramePlace {
  readonly at: number;
}

/**
 * Looks through the frames of a slice before the index is asked for rows: most text searches match few events, and
 * the rows of the others are never needed. Rows of open pages stay.
 */
export async function narrowByText(
  connection: DuckDBConnection,
  snapshot: QuerySnapshot,
  condition: Condition,
  slice: Slice,
  words: TextEngine,
  frames: FrameReader,
  signal: AbortSignal,
): Promise<Narrowed> {
  const source = snapshot.source(slice.fromNs, slice.toNs);
  if (source === null) return { condition: NONE, bytes: 0 };
  const { sql, values } = all([condition, between(slice), { sql: "part >= 0", values: [] }]);
  const reader = await interruptible(connection, signal, () =>
    connection.runAndReadAll(`SELECT DISTINCT part, frame_offset, frame_bytes FROM ${source} WHERE ${sql}`, [
      ...values,
    ]),
  );
  const wanted: FramePlace[] = reader.getRows().map(([part, offset, bytes]) => ({
    part: Number(part),
    frameOffset: Number(offset),
    frameBytes: Number(bytes),
  }));
  const places: TextPlace[] = [];
  const look = (place: FramePlace, content: Uint8Array) => {
    if (places.length > PLACES_MAX) return true;
    const found = words.placesIn(content);
    for (const at of found) places.push({ ...place, at });
    return found.length > 0;
  };
  const bytes = await frames.scan(wanted, words.room, look, signal);
  if (places.length === 0) return { condition: OPEN_PAGES, bytes };
  if (places.length > PLACES_MAX) return { condition: ALL, bytes };
  await notePlaces(connection, places);
  return { condition: AT_PLACES, bytes };
}

const NONE: Condition = { sql: "false", values: [] };
const ALL: Condition = { sql: "true", values: [] };
const OPEN_PAGES: Condition = { sql: "part < 0", values: [] };
const AT_PLACES: Condition = {
  sql: `(part < 0 OR EXISTS (SELECT 1 FROM temp.main.text_places t
    WHERE t.in_part = part AND t.in_frame = frame_offset AND t.place >= start AND t.place < start + length))`,
  values: [],
};

async function notePlaces(connection: DuckDBConnection, places: readonly TextPlace[]): Promise<void> {
  const { BIGINT, DuckDBDataChunk, INTEGER } = await loadDuckDb();
  await connection.run(
    "CREATE OR REPLACE TEMP TABLE text_places (in_part BIGINT, in_frame BIGINT, place INTEGER)",
  );
  const appender = await connection.createAppender("text_places", "main", "temp");
  for (let from = 0; from < places.length; from += CHUNK_ROWS) {
    const rows = places.slice(from, from + CHUNK_ROWS);
    const chunk = DuckDBDataChunk.create([BIGINT, BIGINT, INTEGER], rows.length);
    chunk.setColumns([
      rows.map(({ part }) => BigInt(part)),
      rows.map(({ frameOffset }) => BigInt(frameOffset)),
      rows.map(({ at }) => at),
    ]);
    appender.appendDataChunk(chunk);
  }
  appender.closeSync();
}
