import {
  archiveOwner,
  dayOf,
  type ErasedLetters,
  isNamed,
  isOnHold,
  isUndated,
  type TombstoneScope,
} from "../../core/archive.ts";
import { heldEvents } from "../../core/held-event.ts";
import { timestampMsOf } from "../../core/time.ts";
import type { State } from "../database.ts";
import { IS_PASSED } from "../dead-letters.ts";
import { allHoldsIn } from "./erasures.ts";

interface LetterRow {
  readonly id: number;
  readonly identity: string;
  readonly account: string;
  readonly organization: string | null;
  readonly provider: string | null;
  readonly timestamp: string;
  readonly fetchedMs: number;
  readonly isPassed: 0 | 1;
}

/**
 * Deletes the dead letters that an erasure is about, within a change of the state. Those on hold stay, and those whose
 * batch is not delivered yet: without them their events would go out with it. Dead letters belong to no archive, so
 * the holds of all archives count.
 */
export function eraseDeadLetters(db: State, retentionMs: number, scope: TombstoneScope): ErasedLetters {
  const rows = db
    .prepare(
      `SELECT id, identity, account, organization, provider, timestamp, fetched_ms AS fetchedMs, ${IS_PASSED} AS isPassed FROM dead_letters`,
    )
    .all() as LetterRow[];
  const holds = allHoldsIn(db);
  const remove = db.prepare("DELETE FROM dead_letters WHERE id = ?");
  const inForce = new Set<string>();
  let [erased, onHold, waiting] = [0, 0, 0];
  for (const row of rows) {
    const days = daysOf(row, retentionMs);
    if (!isInScope(db, row, days, scope)) continue;
    const keeping = holds.filter((hold) =>
      days.some((day) => isOnHold([hold], scope.organization, day, day)),
    );
    for (const { id } of keeping) inForce.add(id);
    if (keeping.length > 0) onHold++;
    else if (!row.isPassed) waiting++;
    else erased += remove.run(row.id).changes;
  }
  return { erased, onHold, waiting, holds: [...inForce].sort() };
}

/** The event's own day and, if it is undated, the day of its arrival: a hold on either keeps it. */
function daysOf({ timestamp, fetchedMs }: LetterRow, retentionMs: number): string[] {
  const timeMs = timestampMsOf(timestamp);
  const own = timeMs === undefined ? [] : [dayOf(timeMs)];
  return isUndated(timeMs, fetchedMs, retentionMs) ? [dayOf(fetchedMs), ...own] : own;
}

function isInScope(
  db: State,
  { id, identity, organization, provider, account }: LetterRow,
  [day]: readonly string[],
  scope: TombstoneScope,
): boolean {
  if (archiveOwner(organization, provider, account) !== scope.organization) return false;
  if ((scope.from !== null && day! < scope.from) || (scope.to !== null && day! > scope.to)) return false;
  return scope.event === null || isNamed({ id: idOf(db, id, scope.organization), identity }, scope.event);
}

function idOf(db: State, letter: number, owner: string): string | undefined {
  const bytes = db.prepare("SELECT bytes FROM dead_letters WHERE id = ?").pluck().get(letter) as Buffer;
  try {
    return heldEvents(owner, [bytes])[0]?.id;
  } catch {
    return undefined;
  }
}
