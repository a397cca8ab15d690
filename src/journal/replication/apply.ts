import type Database from "better-sqlite3";
import {
  BIRTH_KEY,
  type LaneLog,
  LostLogError,
  OPENED_KEY,
  type StoredRecord,
} from "../../core/changelog.ts";
import { type Elsewhere, TAG, type Tip, tipKey } from "./batch.ts";
import { replicatedTables } from "./capture.ts";
import { decodeRow, type ReplicatedRow } from "./rows.ts";
import { createTipStore, type LocalTip } from "./tip-store.ts";

/*
 * Applies a lane's log to a state file (C4):
 *   1. the file is marked incomplete; triggers are dropped and foreign keys are not enforced
 *   2. rows are replaced or removed by key, in slices, up to the record that our own opening has written (C5)
 *   3. bodies that a row still needs are added
 *   4. triggers come back, references are checked, and the file is marked complete with the tip reached
 * A process that ends on the way leaves an incomplete file, which is built anew.
 */

export interface Applied {
  readonly tip: LocalTip;
  /** The hashes of the tips that were in the log, by sequence (C6). */
  readonly hashes: ReadonlyMap<number, string>;
  readonly records: number;
}

/** The log has rows that this version cannot store. */
export class NewerRowsError extends Error {
  override readonly name = "NewerRowsError";
}

export interface ApplyOptions {
  readonly log: LaneLog;
  /** The value of the record that ends the replay. */
  readonly opened: string;
  readonly from: LocalTip;
  readonly signal: AbortSignal;
  progress?(records: number): void;
}

export async function applyLog(db: Database.Database, options: ApplyOptions): Promise<Applied> {
  const { log, from, signal } = options;
  db.pragma("foreign_keys = OFF");
  const triggers = dropTriggers(db);
  const store = createTipStore(db);
  const rows = createRowWriter(db);
  /** Rows whose bytes are in the log of bodies, by their newest place. */
  const awaited = new Map<string, Elsewhere>();
  const hashes = new Map<number, string>();
  const reached: { tip: Tip | undefined; offset: number; isMet: boolean } = {
    tip: undefined,
    offset: from.rowOffset,
    isMet: false,
  };
  let records = 0;
  store.put({ ...from, isComplete: false });

  function takeRow({ key, value, offset }: StoredRecord): void {
    if (key === BIRTH_KEY) return;
    if (key === OPENED_KEY) {
      reached.isMet ||= Buffer.from(value ?? []).toString() === options.opened;
      return;
    }
    const name = JSON.parse(key) as [string, ...(string | number)[]];
    if (name[0] === "~tip") {
      const tip = JSON.parse(Buffer.from(value!).toString()) as Tip;
      hashes.set(tip.sequence, tip.hash);
      if (tip.sequence > (reached.tip?.sequence ?? 0)) Object.assign(reached, { tip, offset });
      return;
    }
    awaited.delete(key);
    if (value === null || value[0] === TAG.elsewhere) store.remove(key);
    if (value === null) rows.remove(name);
    else if (value[0] === TAG.inline) rows.put(name[0], decodeRow(value.subarray(1)));
    else awaited.set(key, JSON.parse(Buffer.from(value.subarray(1)).toString()) as Elsewhere);
  }

  for await (const slice of log.read("rows", from.rowOffset + 1, signal)) {
    db.transaction(() => slice.forEach(takeRow))();
    records += slice.length;
    options.progress?.(records);
    signal.throwIfAborted();
    if (reached.isMet) break;
  }
  if (!reached.isMet)
    throw new LostLogError(
      `The log of lane ${log.lane} ends before the record that was just committed to it: Kafka has lost data.`,
    );

  const bodies = createBodyAssembler(awaited);
  let bodyOffset = from.bodyOffset;
  if (awaited.size > 0) {
    for await (const slice of log.read("bodies", from.bodyOffset, signal)) {
      db.transaction(() => {
        for (const record of slice) {
          const done = bodies.take(record);
          if (done === undefined) continue;
          rows.put(done.table, decodeRow(done.bytes));
          store.place(done.key, done.offset);
        }
      })();
      bodyOffset = (slice.at(-1)?.offset ?? bodyOffset - 1) + 1;
      records += slice.length;
      options.progress?.(records);
      signal.throwIfAborted();
      if (awaited.size === 0) break;
    }
  }
  const [missing] = awaited.keys();
  if (missing !== undefined)
    throw new LostLogError(
      `The bytes of ${missing} and ${awaited.size - 1} more rows are not in the log of bodies of lane ${log.lane}: Kafka has lost data.`,
    );
  const tip: LocalTip = {
    ...from,
    ...tipOf(reached.tip),
    rowOffset: reached.offset,
    bodyOffset,
    isComplete: true,
  };
  db.transaction(() => {
    for (const sql of triggers) db.exec(sql);
    checkReferences(db);
    store.put(tip);
  })();
  return { tip, hashes, records };
}

function tipOf(tip: Tip | undefined): Partial<LocalTip> {
  return tip === undefined ? {} : { sequence: tip.sequence, hash: tip.hash, schema: tip.schema };
}

/** Whether the record at a file's tip is that tip: false once it was compacted away, or where the log has forked. */
export function isTip({ key, value }: StoredRecord, { sequence, hash }: LocalTip): boolean {
  if (key !== tipKey(sequence) || value === null) return false;
  const tip = JSON.parse(Buffer.from(value).toString()) as Tip;
  return tip.sequence === sequence && tip.hash === hash;
}

function dropTriggers(db: Database.Database): readonly string[] {
  const triggers = db.prepare("SELECT name, sql FROM main.sqlite_schema WHERE type = 'trigger'").all() as {
    name: string;
    sql: string;
  }[];
  for (const { name } of triggers) db.exec(`DROP TRIGGER main."${name}"`);
  return triggers.map(({ sql }) => sql);
}

function checkReferences(db: Database.Database): void {
  const [broken] = db.pragma("foreign_key_check") as { table: string; rowid: number; parent: string }[];
  if (broken !== undefined)
    throw new LostLogError(
      `A row of ${broken.table} refers to a row of ${broken.parent} that the log does not have: Kafka has lost data.`,
    );
}

/** Replaces and removes rows by key. Statements are made for each set of columns that occurs. */
function createRowWriter(db: Database.Database) {
  const tables = replicatedTables(db);
  const puts = new Map<string, Database.Statement>();
  const removes = new Map<string, Database.Statement>();
  const sequences = tables.has("sqlite_sequence")
    ? db.prepare("DELETE FROM sqlite_sequence WHERE name = ?")
    : undefined;

  function known(table: string) {
    const found = tables.get(table);
    if (found === undefined) throw new NewerRowsError(`The log has rows of an unknown table ${table}.`);
    return found;
  }

  function preparePut(table: string, columns: readonly string[]): Database.Statement {
    known(table);
    const there = db.prepare(`SELECT name FROM pragma_table_info('${table}')`).pluck().all() as string[];
    const unknown = columns.find((column) => !there.includes(column));
    if (unknown !== undefined)
      throw new NewerRowsError(`The log has rows of ${table} with an unknown column ${unknown}.`);
    const names = columns.map((column) => `"${column}"`).join(", ");
    const places = columns.map(() => "?").join(", ");
    return db.prepare(`INSERT OR REPLACE INTO main."${table}" (${names}) VALUES (${places})`);
  }

  return {
    put(table: string, row: ReplicatedRow): void {
      const columns = Object.keys(row);
      const id = `${table} ${columns.join(" ")}`;
      const statement = puts.get(id) ?? preparePut(table, columns);
      puts.set(id, statement);
      // It has no unique key that a REPLACE could go by.
      if (table === "sqlite_sequence") sequences?.run(row.name);
      statement.run(...Object.values(row));
    },
    remove([table, ...key]: readonly [string, ...(string | number)[]]): void {
      const { keyColumns } = known(table);
      const where = keyColumns.map((column) => `"${column}" = ?`).join(" AND ");
      const statement = removes.get(table) ?? db.prepare(`DELETE FROM main."${table}" WHERE ${where}`);
      removes.set(table, statement);
      statement.run(...key);
    },
  };
}

/** Puts the chunks of awaited bodies together. A body that is complete is no longer awaited. */
function createBodyAssembler(awaited: Map<string, Elsewhere>) {
  const parts = new Map<string, { readonly chunks: Uint8Array[]; readonly offset: number }>();
  return {
    take({ key: bodyKey, value, offset }: StoredRecord) {
      const [key, sequence, at, count] = JSON.parse(bodyKey) as [string, number, number, number];
      if (awaited.get(key)?.sequence !== sequence) return undefined;
      const part = parts.get(key) ?? { chunks: [], offset };
      parts.set(key, part);
      part.chunks[at] = value!;
      if (part.chunks.filter((chunk) => chunk !== undefined).length < count) return undefined;
      parts.delete(key);
      awaited.delete(key);
      const [table] = JSON.parse(key) as [string];
      return { key, table, bytes: Buffer.concat(part.chunks), offset: part.offset };
    },
  };
}
