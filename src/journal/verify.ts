import { hash } from "node:crypto";
import type { Connection } from "./database.ts";

/** How many are told by name; the rest are counted. */
const NAMED_MAX = 5;

export interface Verified {
  readonly pages: number;
  readonly events: number;
  /** Pages whose bytes are still there. */
  readonly bodies: number;
  /** In words; empty when everything fits. */
  readonly problems: readonly string[];
}

/**
 * Looks at everything in a state file: the database's own structure, the checksum of every page (R16), and the
 * chain of hashes that positions are judged by (R20). Reads the whole file.
 */
export function verifyState(db: Connection): Verified {
  const structure = structureProblems(db);
  // Of a file whose structure is damaged no row can be trusted.
  if (structure.length > 0) return { pages: 0, events: 0, bodies: 0, problems: structure };
  return verifyPages(db);
}

function structureProblems(db: Connection): string[] {
  const found = db.prepare(`PRAGMA integrity_check(${NAMED_MAX})`).pluck().all() as string[];
  return found.filter((line) => line !== "ok").map((line) => `the file's structure: ${line}`);
}

interface Row {
  readonly number: number;
  readonly events: number;
  readonly checksum: Buffer;
  readonly rolling: string;
  readonly body: Buffer | null;
}

function verifyPages(db: Connection): Verified {
  const rows = db
    .prepare(
      "SELECT p.number, p.events, p.checksum, p.rolling, b.body FROM pages p LEFT JOIN bodies b ON b.page = p.number ORDER BY p.number",
    )
    .iterate() as IterableIterator<Row>;
  const damaged: number[] = [];
  const unchained: number[] = [];
  const total = { pages: 0, events: 0, bodies: 0 };
  let before: Row | undefined;
  for (const row of rows) {
    total.pages++;
    total.events += row.events;
    if (row.body !== null) {
      total.bodies++;
      if (!checksumOf(row.body).equals(row.checksum)) damaged.push(row.number);
    }
    // Old pages are forgotten one by one, so the chain may have begun anywhere and may have gaps.
    if (before?.number === row.number - 1 && rollingOf(before.rolling, row.checksum) !== row.rolling)
      unchained.push(row.number);
    before = row;
  }
  const problems = [
    ...(damaged.length > 0 ? [`${named(damaged)} not give the checksum that was stored with it`] : []),
    ...(unchained.length > 0 ? [`${named(unchained)} not follow the page before it`] : []),
  ];
  return { ...total, problems };
}

function named(numbers: readonly number[]): string {
  const shown = numbers.slice(0, NAMED_MAX).join(", ");
  const more = numbers.length > NAMED_MAX ? ` and ${numbers.length - NAMED_MAX} more` : "";
  return numbers.length === 1 ? `page ${shown} does` : `pages ${shown}${more} do`;
}

/** Of a page's stored bytes. */
export function checksumOf(body: Uint8Array): Buffer {
  return Buffer.from(hash("sha256", body, "hex"), "hex").subarray(0, 16);
}

/** Stands for all pages up to and including the one with this checksum. */
export function rollingOf(before: string, checksum: Buffer): string {
  return hash("sha256", `${before}${checksum.toString("hex")}`, "hex").slice(0, 32);
}
