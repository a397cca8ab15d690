import type { Position } from "../core/position.ts";
import { startOf } from "../core/position.ts";
import type { SinkState } from "../core/sink.ts";
import type { State } from "./database.ts";
import { settingsKept } from "./settings-kept.ts";

/** Position and state of a reader, for processes that only read; the journal's start before its first commit. */
export function heldOf(db: State, reader: string): { position: Position; state: SinkState | undefined } {
  const journal = db.prepare("SELECT value FROM meta WHERE key = 'journal'").pluck().get() as string;
  const row = db.prepare("SELECT page, event, hash, state FROM readers WHERE name = ?").get(reader) as
    | { page: number; event: number; hash: string; state: string | null }
    | undefined;
  if (row === undefined) return { position: startOf(journal), state: undefined };
  const { page, event, hash, state } = row;
  return {
    position: { journal, page, event, hash },
    state: state === null ? undefined : (JSON.parse(state) as SinkState),
  };
}

/** The readers that have a position, the settings they had, and whether the journal is still empty. */
export function placesOf(db: State): {
  readonly names: ReadonlySet<string>;
  readonly isEmpty: boolean;
  readonly settings: ReadonlyMap<string, string>;
} {
  const names = db.prepare("SELECT name FROM readers").pluck().all() as string[];
  const isEmpty = db.prepare("SELECT 1 FROM pages LIMIT 1").pluck().get() === undefined;
  return { names: new Set(names), isEmpty, settings: settingsKept(db) };
}
