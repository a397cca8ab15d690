import { IDENTITY_BYTES } from "../core/prepare-page.ts";
import type { State } from "./database.ts";

/** The way of one event, as the state file knows it. */
export interface EventJourney {
  /** The page that brought it; undefined once its identity is forgotten, a week after the service's retention. */
  readonly page: number | undefined;
  /** Readers that have passed the event. */
  readonly passed: ReadonlySet<string>;
  /** Readers that keep it as a dead letter, with the reason. */
  readonly deadLetters: ReadonlyMap<string, string>;
}

const ENTRY_BYTES = IDENTITY_BYTES + 8;

export function journeyOf(
  db: State,
  event: { readonly organization: string | null; readonly identity: string; readonly timestampMs: number },
): EventJourney {
  const { organization, identity, timestampMs } = event;
  const wanted = Buffer.from(identity, "hex");
  const rows = db
    .prepare("SELECT page, entries FROM identities WHERE owner = ? AND last_ms >= ? AND first_ms <= ?")
    .all(organization ?? "", timestampMs, timestampMs) as { page: number; entries: Buffer }[];
  const found = rows.find(({ entries }) => {
    for (let at = 0; at < entries.length; at += ENTRY_BYTES)
      if (entries.compare(wanted, 0, IDENTITY_BYTES, at, at + IDENTITY_BYTES) === 0) return true;
    return false;
  });
  const readers = db.prepare("SELECT name, page, event FROM readers").all() as {
    name: string;
    page: number;
    event: number;
  }[];
  const events =
    found && (db.prepare("SELECT events FROM pages WHERE number = ?").pluck().get(found.page) as number);
  const letters = db.prepare("SELECT reader, reason FROM dead_letters WHERE identity = ?").all(identity) as {
    reader: string;
    reason: string;
  }[];
  return {
    page: found?.page,
    passed: new Set(
      readers
        // Within the page a reader may be before or behind the event: only the whole page counts.
        .filter(
          ({ page, event: at }) => found && (page > found.page || (page === found.page && at >= events!)),
        )
        .map(({ name }) => name),
    ),
    deadLetters: new Map(letters.map(({ reader, reason }) => [reader, reason])),
  };
}
