import { hash } from "node:crypto";
import { type HoldScope, isNamed, isOnHold } from "../../core/archive.ts";
import type { State } from "../database.ts";

/** Whether an event of that day was erased, by its id or its identity of 32 hexadecimal digits. */
export type IsErased = (organization: string, day: string, event: EventNames) => boolean;

interface EventNames {
  readonly id: string | undefined;
  readonly identity: string;
}

interface Tombstone {
  readonly owner: string;
  /** Empty: all events of the organization. */
  readonly event: string;
  readonly fromDay: string;
  readonly toDay: string;
  readonly reason: string;
}

/** The record of an archive's erasures, read once. */
export function erasuresOf(db: State, archive: string): IsErased {
  const rows = tombstonesOf(db, archive);
  return (organization, day, event) => rows.some((row) => reaches(row, organization, day, event));
}

/**
 * The erasure that keeps an open event out of an archive, as its salted wording; undefined where the event is
 * archived, also because of a hold. `days` is the event's own day and, if it is undated, the day of its arrival.
 */
export function openErasuresOf(db: State, archive: string) {
  const rows = tombstonesOf(db, archive);
  const holds = rows.length === 0 ? [] : holdsIn(db, archive);
  return (organization: string, days: readonly string[], event: EventNames): string | undefined => {
    const found = rows.find((row) => days.some((day) => reaches(row, organization, day, event)));
    if (found === undefined) return undefined;
    return days.some((day) => isOnHold(holds, organization, day, day)) ? undefined : found.reason;
  };
}

/** Changes whenever other events are left out; empty where none are. */
export function erasureRulesOf(db: State, archive: string): string {
  const rows = tombstonesOf(db, archive);
  if (rows.length === 0) return "";
  return hash("sha256", JSON.stringify([rows, holdsIn(db, archive)]), "hex").slice(0, 8);
}

export function holdsIn(db: State, archive: string): HoldScope[] {
  const text = db
    .prepare("SELECT value FROM archive_facts WHERE archive = ? AND key = 'holds'")
    .pluck()
    .get(archive) as string | undefined;
  return JSON.parse(text ?? "[]") as HoldScope[];
}

/** A hold with the name that commands show. */
export interface NamedHold extends HoldScope {
  readonly id: string;
}

export function allHoldsIn(db: State): NamedHold[] {
  const texts = db.prepare("SELECT value FROM archive_facts WHERE key = 'holds'").pluck().all() as string[];
  return texts.flatMap((text) => JSON.parse(text) as NamedHold[]);
}

function tombstonesOf(db: State, archive: string): Tombstone[] {
  return db
    .prepare(
      `SELECT owner, event, from_day AS fromDay, to_day AS toDay, reason FROM archive_tombstones
       WHERE archive = ? ORDER BY owner, event, from_day, to_day`,
    )
    .all(archive) as Tombstone[];
}

function reaches(
  { owner, event, fromDay, toDay }: Tombstone,
  organization: string,
  day: string,
  names: EventNames,
): boolean {
  return owner === organization && day >= fromDay && day <= toDay && (event === "" || isNamed(names, event));
}
