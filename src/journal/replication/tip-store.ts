import { crc32 } from "node:zlib";
import type Database from "better-sqlite3";

/** How far a state file has copied its lane's log. Kept in the file itself, and not replicated. */
export interface LocalTip {
  readonly cluster: string;
  readonly lane: number;
  readonly sequence: number;
  readonly hash: string;
  readonly schema: number;
  /** The offset of the tip's record among the rows; -1 before the first commit. */
  readonly rowOffset: number;
  /** Bodies before this offset were taken. */
  readonly bodyOffset: number;
  /** False while records are being applied: a compacted log is consistent only at its end (C4). */
  readonly isComplete: boolean;
}

export function makeLocalTables(db: Database.Database): void {
  db.exec(`CREATE TABLE IF NOT EXISTS replica_tip (id INTEGER PRIMARY KEY CHECK (id = 1), tip TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS replica_bodies (key TEXT PRIMARY KEY, first_offset INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS replica_bodies_by_offset ON replica_bodies (first_offset)`);
}

/** Undefined also where the tip does not fit its checksum: a wrong bit must not pass for a log that has lost data. */
export function readLocalTip(db: Database.Database): LocalTip | undefined {
  const has = db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'replica_tip'").get();
  if (has === undefined) return undefined;
  const text = db.prepare("SELECT tip FROM replica_tip WHERE id = 1").pluck().get() as string | undefined;
  if (text === undefined) return undefined;
  // Files of earlier versions have no checksum.
  const { checksum, ...tip } = JSON.parse(text) as LocalTip & { readonly checksum?: number };
  return checksum === undefined || checksum === checksumOf(tip) ? tip : undefined;
}

function checksumOf(tip: LocalTip): number {
  return crc32(JSON.stringify(tip));
}

/** Inside the caller's transaction. */
export function createTipStore(db: Database.Database) {
  const put = db.prepare("INSERT OR REPLACE INTO replica_tip (id, tip) VALUES (1, ?)");
  const place = db.prepare("INSERT OR REPLACE INTO replica_bodies (key, first_offset) VALUES (?, ?)");
  const remove = db.prepare("DELETE FROM replica_bodies WHERE key = ?");
  const oldest = db.prepare("SELECT MIN(first_offset) FROM replica_bodies").pluck();
  return {
    put: (tip: LocalTip) => void put.run(JSON.stringify({ ...tip, checksum: checksumOf(tip) })),
    place: (key: string, offset: number) => void place.run(key, offset),
    remove: (key: string) => void remove.run(key),
    /** The oldest body that a row still needs. */
    oldestBody: () => (oldest.get() as number | null) ?? undefined,
  };
}
