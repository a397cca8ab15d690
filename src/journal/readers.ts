import type { Clock } from "../core/clock.ts";
import type { DeadLetter, DeadLetterPlace, JournalReader } from "../core/journal.ts";
import { comparePositions, formatPosition, type Position, parsePosition, startOf } from "../core/position.ts";
import { reasonGroupOf } from "../core/reason-group.ts";
import type { SinkState } from "../core/sink.ts";
import { archiveFactsOf, forgetArchive } from "./archive/forget.ts";
import type { State } from "./database.ts";
import type { Pages } from "./pages.ts";
import { rowChecksum } from "./row-checksums.ts";
import { forgetSettings, keepSettings, settingsKept } from "./settings-kept.ts";

interface ReaderRow {
  readonly name: string;
  readonly page: number;
  readonly event: number;
  readonly hash: string;
  readonly state: string | null;
  /** Positions with a blank between them. */
  readonly bound: string | null;
}

/** Characters of a destination's answer that are kept with a dead letter. */
const ANSWER_MAX = 500;
/** No reader can have this name. */
const NO_READER = "~nobody";

/** Readers with their durable positions. */
export function createReaders(db: State, pages: Pages, journalId: string, clock: Clock) {
  const select = db.prepare("SELECT name, page, event, hash, state, bound FROM readers WHERE name = ?");
  const upsert = db.prepare(
    `INSERT INTO readers (name, page, event, hash, state, bound, committed_ms) VALUES (?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (name) DO UPDATE SET page = excluded.page, event = excluded.event, hash = excluded.hash,
       state = excluded.state, bound = excluded.bound, committed_ms = excluded.committed_ms`,
  );
  const updateBound = db.prepare("UPDATE readers SET bound = ?, state = ? WHERE name = ?");
  const insertDeadLetter = db.prepare(
    `INSERT OR IGNORE INTO dead_letters (reader, page, event, identity, reason, stored_ms, account, organization, provider, service, event_type, timestamp, fetched_ms, bytes, answer, reason_group, row_checksum)
     VALUES (@reader, @page, @event, @identity, @reason, @stored_ms, @account, @organization, @provider, @service, @event_type, @timestamp, @fetched_ms, @bytes, @answer, @reason_group, @row_checksum)`,
  );
  const deleteDeadLetter = db.prepare(
    "DELETE FROM dead_letters WHERE reader = ? AND page = ? AND event = ? AND identity = ?",
  );
  const selectDeadLetters = db.prepare(
    `SELECT page, event AS "index", identity, reason FROM dead_letters
     WHERE reader = ? AND (page, event) >= (?, ?) ORDER BY page, event`,
  );

  function commit(
    name: string,
    position: Position,
    state: SinkState | undefined,
    bounds: readonly Position[] = [],
  ): void {
    const { page, event, hash } = position;
    upsert.run(name, page, event, hash, formatState(state), formatBounds(bounds), clock.now());
  }

  function addDeadLetters(name: string, letters: readonly DeadLetter[]): Promise<void> {
    return db.change(() => {
      for (const { event, reason, answer } of letters) {
        const row = {
          reader: name,
          page: event.page,
          event: event.index,
          identity: event.identity,
          reason,
          stored_ms: clock.now(),
          account: event.account,
          organization: event.organization,
          provider: event.provider,
          service: event.service,
          event_type: event.eventType,
          timestamp: event.timestamp,
          fetched_ms: event.fetchedAtMs,
          bytes: event.bytes,
          answer: answer?.slice(0, ANSWER_MAX) ?? null,
          reason_group: reasonGroupOf(reason),
        };
        insertDeadLetter.run({ ...row, row_checksum: rowChecksum(row) });
      }
    });
  }

  return {
    names: () => db.prepare("SELECT name FROM readers ORDER BY name").pluck().all() as string[],
    settings: () => settingsKept(db),
    keepSettings: (settings: ReadonlyMap<string, string>) => keepSettings(db, settings),
    /** Whether it is the reader of an archive, whose log, holds and days are stored under its name. */
    isArchive: (name: string) => db.prepare("SELECT 1 FROM archives WHERE name = ?").get(name) !== undefined,
    /** A reader that begins elsewhere than at the journal's start. */
    createAt: (name: string, position: Position) => db.change(() => commit(name, position, undefined)),
    /** Moves a reader of the program itself, inside the caller's change. */
    move: (name: string, position: Position) => commit(name, position, undefined),
    /** The position, the state, the dead letters and what is read for it alone go with the new name. */
    rename(from: string, to: string): Promise<void> {
      return db.change(() => {
        db.prepare("UPDATE readers SET name = ? WHERE name = ?").run(to, from);
        db.prepare("UPDATE pages SET reader = ? WHERE reader = ?").run(to, from);
        db.prepare("UPDATE dead_letters SET reader = ? WHERE reader = ?").run(to, from);
        db.prepare("UPDATE windows SET reader = ? WHERE reader = ?").run(to, from);
        forgetSettings(db, [from, to]);
      });
    },
    archiveFacts: (name: string) => archiveFactsOf(db, name),
    /** Of an archive, everything that the state knows of it. */
    forget(name: string): Promise<void> {
      pages.forgetReader(name);
      return db.change(() => {
        forgetArchive(db, name);
        db.prepare("DELETE FROM readers WHERE name = ?").run(name);
        db.prepare("DELETE FROM dead_letters WHERE reader = ?").run(name);
        db.prepare("DELETE FROM windows WHERE reader = ?").run(name);
        forgetSettings(db, [name]);
        db.prepare("DELETE FROM bodies WHERE page IN (SELECT number FROM pages WHERE reader = ?)").run(name);
        // A later sink of this name must not look for the bytes that are gone.
        db.prepare("UPDATE pages SET reader = ? WHERE reader = ?").run(NO_READER, name);
      });
    },
    async open(name: string): Promise<JournalReader> {
      if (select.get(name) === undefined) await db.change(() => commit(name, startOf(journalId), undefined));
      const row = select.get(name) as ReaderRow;
      let position: Position = { journal: journalId, page: row.page, event: row.event, hash: row.hash };
      let state = row.state === null ? undefined : (JSON.parse(row.state) as SinkState);
      let bounds = parseBounds(row.bound);
      return {
        name,
        get position() {
          return position;
        },
        get state() {
          return state;
        },
        get bounds() {
          return bounds;
        },
        async read(after) {
          const page = await pages.read(name, after);
          pages.passed(name, after);
          return page;
        },
        hasMore: async (after) => pages.hasNext(name, after),
        async commit(to, newState, delivered = []) {
          const isBack = comparePositions(to, position) < 0;
          const left = isBack ? [] : bounds.filter((bound) => comparePositions(bound, to) > 0);
          await db.change(() => {
            commit(name, to, newState, left);
            for (const { page, index, identity } of delivered)
              deleteDeadLetter.run(name, page, index, identity);
          });
          position = to;
          state = newState;
          bounds = left;
        },
        async setBounds(to, newState = state) {
          await db.change(() => updateBound.run(formatBounds(to), formatState(newState), name));
          bounds = to;
          state = newState;
        },
        addDeadLetters: (letters) => addDeadLetters(name, letters),
        deadLettersAfter: async ({ page, event }) =>
          selectDeadLetters.all(name, page, event) as DeadLetterPlace[],
        holds: async (to) => pages.holds(to),
        reaches: async (from) => pages.reaches(name, from),
      };
    },
  };
}

function formatState(state: SinkState | undefined): string | null {
  return state === undefined ? null : JSON.stringify(state);
}

function formatBounds(bounds: readonly Position[]): string | null {
  return bounds.length === 0 ? null : bounds.map(formatPosition).join(" ");
}

function parseBounds(text: string | null): readonly Position[] {
  return text === null ? [] : text.split(" ").flatMap((each) => parsePosition(each) ?? []);
}

export type Readers = ReturnType<typeof createReaders>;
