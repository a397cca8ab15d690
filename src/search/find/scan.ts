import type { DuckDBConnection } from "@duckdb/node-api";
import { interruptible } from "../engine/duckdb.ts";
import { all, type Condition } from "./filter.ts";
import type { FramePlace, FrameReader } from "./frames.ts";
import { between, type Slice } from "./select.ts";
import type { QuerySnapshot } from "./snapshot.ts";
import { mayContain, searchable } from "./text.ts";

/** With more frames than this the condition would cost more than it saves. */
const FRAMES_LISTED_MAX = 2000;

/**
 * Looks through the frames of a slice before the index is asked for rows: most text searches match few frames, and
 * the rows of the others are never needed.
 */
export async function frameCondition(
  connection: DuckDBConnection,
  snapshot: QuerySnapshot,
  condition: Condition,
  slice: Slice,
  prefilter: readonly string[],
  frames: FrameReader,
  signal: AbortSignal,
): Promise<Condition> {
  const source = snapshot.source(slice.fromNs, slice.toNs);
  if (source === null) return NONE;
  const { sql, values } = all([condition, between(slice), { sql: "part >= 0", values: [] }]);
  const reader = await interruptible(connection, signal, () =>
    connection.runAndReadAll(`SELECT DISTINCT part, frame_offset, frame_bytes FROM ${source} WHERE ${sql}`, [
      ...values,
    ]),
  );
  const places: FramePlace[] = reader.getRows().map(([part, offset, bytes]) => ({
    part: Number(part),
    frameOffset: Number(offset),
    frameBytes: Number(bytes),
  }));
  const found: FramePlace[] = [];
  for await (const { place, content } of frames.read(places, signal)) {
    if (mayContain(searchable(content), prefilter)) found.push(place);
  }
  if (found.length === 0) return { sql: "part < 0", values: [] };
  if (found.length > FRAMES_LISTED_MAX) return { sql: "true", values: [] };
  const list = found.map(({ part, frameOffset }) => `(${part}, ${frameOffset})`).join(", ");
  return { sql: `(part < 0 OR (part, frame_offset) IN (VALUES ${list}))`, values: [] };
}

const NONE: Condition = { sql: "false", values: [] };
