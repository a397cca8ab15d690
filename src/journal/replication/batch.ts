import { hash } from "node:crypto";
import type Database from "better-sqlite3";
import type { LogBatch, LogRecord } from "../../core/changelog.ts";
import { type Capture, type KeyValue, type ReplicatedTable, recordKey, type TouchedRow } from "./capture.ts";
import { encodeRow, type ReplicatedRow } from "./rows.ts";

/*
 * The records that a commit writes to the log. Rows come first, the tip last (C6). The bytes of pages, and rows that are larger than
 * a message may be, go to the log of bodies in chunks (C8); their place in `rows` then names them.
 */

/** Rows up to this size are kept in the compacted log. It leaves room below Kafka's usual limit of 1 MB. */
const INLINE_BYTES_MAX = 700_000;
const CHUNK_BYTES = 700_000;
/** The newest tips stay in the log under this many keys. */
const RING_SIZE = 256;
/** The bytes of pages are dropped soon, so they are never kept in the compacted log. */
const BODY_TABLE = "bodies";

export const TAG = { inline: 1, elsewhere: 2 } as const;

/** The last record of a commit: how many commits there were, and a hash over all of them. */
export interface Tip {
  readonly sequence: number;
  readonly hash: string;
  /** The newest migration that the writer knows. */
  readonly schema: number;
  /** Records that the commit has put into the log of bodies. */
  readonly bodies: number;
}

/** The value of a row whose bytes are in the log of bodies. */
export interface Elsewhere {
  readonly sequence: number;
  readonly chunks: number;
}

export interface PlannedBatch {
  readonly batch: LogBatch;
  readonly tip: Tip;
  /** Rows whose bytes go to the log of bodies with this commit, and rows that have none there any more. */
  readonly placed: readonly string[];
  readonly removed: readonly string[];
}

export function createBatchPlanner(db: Database.Database, { tables }: Pick<Capture, "tables">) {
  const rowOf = createRowLookup(db);
  return (touched: readonly TouchedRow[], before: Pick<Tip, "sequence" | "hash">, schema: number) =>
    planBatch((table, key) => rowOf(tables.get(table)!, key), touched, before, schema);
}

function planBatch(
  rowOf: (table: string, key: readonly KeyValue[]) => ReplicatedRow | undefined,
  touched: readonly TouchedRow[],
  before: Pick<Tip, "sequence" | "hash">,
  schema: number,
): PlannedBatch {
  const sequence = before.sequence + 1;
  const [rows, bodies, placed, removed]: [LogRecord[], LogRecord[], string[], string[]] = [[], [], [], []];
  let digest = before.hash;
  for (const { table, key } of touched) {
    const name = recordKey(table, key);
    const row = rowOf(table, key);
    const encoded = row === undefined ? null : encodeRow(row);
    digest = hash("sha256", Buffer.concat([Buffer.from(`${digest} ${name} `), encoded ?? Buffer.of()]));
    if (encoded === null) {
      rows.push({ key: name, value: null });
      removed.push(name);
    } else if (table !== BODY_TABLE && encoded.length <= INLINE_BYTES_MAX) {
      rows.push({ key: name, value: Buffer.concat([Buffer.of(TAG.inline), encoded]) });
      removed.push(name);
    } else {
      const chunks = chunksOf(name, sequence, encoded);
      bodies.push(...chunks);
      rows.push({ key: name, value: elsewhere({ sequence, chunks: chunks.length }) });
      placed.push(name);
    }
  }
  const tip: Tip = { sequence, hash: digest, schema, bodies: bodies.length };
  rows.push(tipRecord(tip));
  return { batch: { rows, bodies }, tip, placed, removed };
}

function tipRecord(tip: Tip): LogRecord {
  return { key: tipKey(tip.sequence), value: Buffer.from(JSON.stringify(tip)) };
}

export function tipKey(sequence: number): string {
  return JSON.stringify(["~tip", sequence % RING_SIZE]);
}

function elsewhere(place: Elsewhere): Buffer {
  return Buffer.concat([Buffer.of(TAG.elsewhere), Buffer.from(JSON.stringify(place))]);
}

/** The key of a body names its row and commit, its number among the chunks, and their count. */
function chunksOf(name: string, sequence: number, bytes: Buffer): LogRecord[] {
  const count = Math.max(1, Math.ceil(bytes.length / CHUNK_BYTES));
  return Array.from({ length: count }, (_, at) => ({
    key: JSON.stringify([name, sequence, at, count]),
    value: bytes.subarray(at * CHUNK_BYTES, (at + 1) * CHUNK_BYTES),
  }));
}

function createRowLookup(db: Database.Database) {
  const statements = new Map<string, Database.Statement>();
  return ({ name, keyColumns }: ReplicatedTable, key: readonly KeyValue[]): ReplicatedRow | undefined => {
    const where = keyColumns.map((column) => `"${column}" = ?`).join(" AND ");
    const statement = statements.get(name) ?? db.prepare(`SELECT * FROM main."${name}" WHERE ${where}`);
    statements.set(name, statement);
    return statement.get(...key) as ReplicatedRow | undefined;
  };
}
