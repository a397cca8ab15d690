import { dayOf, isNamed } from "../../core/archive.ts";
import type { JournalEvent } from "../../core/event.ts";
import { UNDATED_MS } from "../../core/prepare-page.ts";
import type { CurrentPart } from "../log/current-parts.ts";
import { archivedEvents } from "../part/events.ts";
import type { Line } from "../part/manifest.ts";
import { openRange } from "../part/range.ts";
import type { ArchiveStore } from "../store/store.ts";
import { reach } from "./holds.ts";
import type { Fate } from "./rewrite.ts";

export interface Erasure {
  readonly organization: string;
  /** One event by id or identity; undefined: the whole organization. */
  readonly event?: string | undefined;
  readonly from: string | null;
  readonly to: string | null;
  readonly reason: string;
}

/**
 * What an erasure leaves of a line. A line of an addition may have events of several days, so each event is judged by
 * its own day. An undated one also counts for the day of its arrival, as it does before its day is closed.
 */
export async function fateOfErased(
  line: Line,
  { organization, event: wanted, from, to }: Erasure,
  { leaf, files }: CurrentPart,
  store: ArchiveStore,
): Promise<Fate> {
  if (line.organization !== organization) return "keep";
  const isInside = (day: string) => (from === null || day >= from) && (to === null || day <= to);
  const isUndated = leaf.kind === "undated";
  const isWhole = leaf.kind === "day" ? isInside(line.day) : reach(line).every(isInside);
  const isAll = isWhole || (isUndated && isInside(line.day));
  if (wanted === undefined && isAll) return "gone";
  if (leaf.kind === "day" && !isWhole) return "keep";
  const isErased = (event: JournalEvent) =>
    (isAll || (event.timestampMs !== UNDATED_MS && isInside(dayOf(event.timestampMs)))) &&
    (wanted === undefined || isNamed(event, wanted));
  const without = new Set<number>();
  let left = 0;
  const range = await openRange(store, files!.data, line);
  for await (const { index, event } of archivedEvents(range, organization)) {
    if (event === null) continue;
    if (isErased(event)) without.add(index);
    else left++;
  }
  if (without.size === 0) return "keep";
  return left === 0 && wanted === undefined ? "gone" : { without };
}
