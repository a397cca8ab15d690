import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type BufferPool, createBufferPool } from "../../src/core/buffer-pool.ts";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import { openState, type State } from "../../src/journal/database.ts";
import { createJournal, type SqliteJournal } from "../../src/journal/journal.ts";

/** A journal in a folder of its own. */
export interface JournalFixture {
  readonly folder: string;
  readonly file: string;
  readonly db: State;
  readonly journal: SqliteJournal;
  /** Memory that is returned is filled with a pattern. */
  readonly memory: BufferPool;
  /** Closed and opened again, as after a restart. */
  reopen(): SqliteJournal;
  close(): void;
}

export function temporaryFolder(): { readonly path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), "tidemark-test-"));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

export function openFixture(clock: Clock = systemClock): JournalFixture {
  const folder = temporaryFolder();
  const file = join(folder.path, "state.db");
  const memory = createBufferPool({ poison: true });
  let db = openState(file);
  let journal = createJournal(db, clock, memory);
  return {
    folder: folder.path,
    file,
    memory,
    get db() {
      return db;
    },
    get journal() {
      return journal;
    },
    reopen() {
      db.close();
      db = openState(file);
      journal = createJournal(db, clock, memory);
      return journal;
    },
    close() {
      db.close();
      folder.remove();
    },
  };
}
