import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Sqlite } from "../../src/core/sqlite.ts";
import { decompress } from "../../src/core/zstd.ts";

/** A secret that can be found again, in whatever it ended up. */
export interface Marker {
  readonly name: string;
  readonly value: string;
}

export function markerOf(name: string): Marker {
  return { name, value: `canary-${name}-${randomBytes(16).toString("hex")}` };
}

/** Everything that was looked through, by what it is, with what was found in it. */
export interface Search {
  look(place: string, content: string | Buffer): void;
  /** `PLACE holds MARKER`, for each. */
  readonly finds: readonly string[];
  readonly places: number;
  readonly bytes: number;
}

export function createSearch(markers: readonly Marker[]): Search {
  const needles = markers.flatMap(({ name, value }) => formsOf(value).map((form) => ({ name, form })));
  const finds = new Set<string>();
  let places = 0;
  let bytes = 0;
  return {
    look(place, content) {
      const buffer = Buffer.from(content as string);
      places++;
      bytes += buffer.length;
      for (const { name, form } of needles) if (buffer.includes(form)) finds.add(`${place} holds ${name}`);
    },
    get finds() {
      return [...finds];
    },
    get places() {
      return places;
    },
    get bytes() {
      return bytes;
    },
  };
}

/** Plain, as base64 at any place in a longer text, and as hex. */
export function formsOf(value: string): readonly Buffer[] {
  const core = /[0-9a-f]{32}/.exec(value)?.[0] ?? value;
  const base64 = [0, 1, 2].map((offset) => {
    const text = Buffer.concat([Buffer.alloc(offset), Buffer.from(core)]).toString("base64");
    // The first and last digits depend on the neighbours.
    return text.slice(offset === 0 ? 0 : 4, -4);
  });
  return [core, ...base64, Buffer.from(core).toString("hex")].map((text) => Buffer.from(text));
}

/** All files below a folder, but those named. */
export function lookThroughFolder(search: Search, folder: string, but: ReadonlySet<string>): void {
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isFile() && !but.has(path))
      search.look(`file ${path.slice(folder.length)}`, readFileSync(path));
  }
}

const ZSTD = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);

/** Every value of every table, compressed ones opened. Gives how many were looked at. */
export function lookThroughState(search: Search, file: string): number {
  const db = new Sqlite(file, { readonly: true });
  try {
    const tables = db
      .prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")
      .pluck()
      .all() as string[];
    let values = 0;
    for (const table of tables) {
      for (const row of db.prepare(`SELECT * FROM "${table}"`).iterate() as Iterable<
        Record<string, unknown>
      >) {
        for (const [column, value] of Object.entries(row)) {
          if (typeof value !== "string" && !Buffer.isBuffer(value)) continue;
          values++;
          const isPacked = Buffer.isBuffer(value) && value.subarray(0, 4).equals(ZSTD);
          search.look(`state ${table}.${column}`, isPacked ? decompress(value as Buffer) : value);
        }
      }
    }
    return values;
  } finally {
    db.close();
  }
}

/** The command line of every process of this machine; environments are their owners' affair. */
export function lookThroughProcesses(search: Search): number {
  const ids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  for (const id of ids) {
    try {
      search.look(`command line of process ${id}`, readFileSync(`/proc/${id}/cmdline`));
    } catch {
      // It has ended meanwhile.
    }
  }
  return ids.length;
}
