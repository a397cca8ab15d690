import type { Clock } from "../core/clock.ts";
import { type Gap, gapKey, isListed, isUnnamed, type MetEvents, type NewGap } from "../core/gap.ts";
import { matchPlaces, type TimePlace } from "../core/places.ts";
import { wholeSecondAfter, wholeSecondBefore } from "../core/time.ts";
import type { State } from "./database.ts";
import { asksFor, type GapRow, gapOfRow, organizationsOf } from "./gap-row.ts";

/**
 * Counts unreadable events without a name, inside the caller's transaction. Such an event has only a place, between the
 * readable events around it, and each is a gap of its own.
 *
 * 1. Of the events that a reading has met, as many as possible are taken for known ones by their places. The others
 *    are new gaps.
 * 2. An event that comes to a place is noted in one of its gaps (came-gaps.ts). So is a new gap with a name: it may be
 *    the same event.
 * 3. A reading that met all of a stretch ends the gaps inside it that it needs for no event, if something was noted in
 *    them; those with a name too. The service may have deleted the events of the others: those stay.
 * 4. A gap that is needed was not about what came, so the note is removed.
 *
 * Which of several gaps of one place ends does not matter: their number is what is true.
 */
export function createMeet(db: State, clock: Clock, add: (gaps: readonly NewGap[]) => void) {
  const overlapping = db.prepare(
    `SELECT * FROM gaps WHERE reason = 'unreadable' AND account = ? AND provider IS ? AND to_ms > ? AND from_ms < ?
     ORDER BY to_ms - from_ms, id`,
  );
  const remove = db.prepare("DELETE FROM gaps WHERE id = ?");
  const setCame = db.prepare("UPDATE gaps SET came_ms = ? WHERE id = ?");

  /** `fresh`: gaps that the same change has added. */
  return (reading: MetEvents, fresh: readonly NewGap[]): void => {
    const { gaps: met, whole, readable = [], begunMs = clock.now() } = reading;
    const named = fresh.filter((gap) => gap.reason === "unreadable" && !isListed(gap));
    const { awaited, others, come } = knownTo(reading, named);
    const matched = matchPlaces(met, [awaited, others, come.filter(isUnnamed)]);
    add(met.filter((gap) => !matched.has(gap)));
    const needed = new Set(matched.values());
    for (const { stream, fromMs } of named) {
      const isFormer = (gap: Gap) =>
        organizationsOf(stream).includes(gap.organization ?? "") && gap.fromMs <= fromMs && fromMs < gap.toMs;
      const former = awaited.find((gap) => !needed.has(gap) && !come.includes(gap) && isFormer(gap));
      if (former === undefined) continue;
      setCame.run(clock.now(), former.id);
      come.push(former);
    }
    for (const gap of come) {
      const isRead = readable.includes(gap.id!) || (whole !== undefined && isWithin(gap, whole));
      if (!needed.has(gap)) {
        if (isRead) remove.run(gap.id);
        // What came after the reading began may be the event that it met.
      } else if (gap.cameMs! <= begunMs) setCame.run(null, gap.id);
    }
  };

  /** The gaps of single events that may be those of a reading. Those whose time is known best come first. */
  function knownTo({ stream, gaps, named, whole }: MetEvents, fresh: readonly NewGap[]) {
    const places = [...gaps, ...fresh, ...(whole === undefined ? [] : [whole])];
    const fromMs = places.reduce((least, place) => Math.min(least, place.fromMs), Number.POSITIVE_INFINITY);
    const toMs = places.reduce((most, place) => Math.max(most, place.toMs), Number.NEGATIVE_INFINITY);
    const owners = new Set(organizationsOf(stream));
    const known = (overlapping.all(stream.account, stream.provider, fromMs, toMs) as GapRow[])
      .filter((row) => owners.has(row.organization) && asksFor(stream, row))
      .map(gapOfRow);
    const missing = known.filter(({ cameMs }) => cameMs === null);
    return {
      awaited: missing.filter(isUnnamed),
      // The name of an event is not always told.
      others: missing.filter((gap) => !isUnnamed(gap) && !isListed(gap) && !named.includes(gapKey(gap))),
      come: known.filter(({ cameMs }) => cameMs !== null),
    };
  }
}

/** A request covers whole seconds. */
function isWithin(gap: TimePlace, { fromMs, toMs }: TimePlace): boolean {
  return gap.fromMs >= wholeSecondBefore(fromMs) && gap.toMs <= wholeSecondAfter(toMs);
}
