import { join } from "node:path";
import { heldFrame, heldFrames, heldPartsOf } from "../../src/archive/evidence/held-parts.ts";
import type { Holdings } from "../../src/core/holdings.ts";
import { openHeldPages } from "../../src/journal/held-pages.ts";
import { openSearch, type Search } from "../../src/search/engine/search.ts";
import type { Hit } from "../../src/search/find/fetch.ts";
import { describe } from "../../src/services/index.ts";
import { ORIGIN, openWorld, RETENTION_MS, type World, type WorldOptions } from "../archive/world.ts";

/** A journal, an archive of it, and a search over both. */
export interface SearchWorld {
  readonly world: World;
  readonly holdings: Holdings;
  readonly search: Search;
  readonly indexFolder: string;
  /** Opens the search again, as another process would. */
  reopen(): Promise<Search>;
  close(): void;
}

/** Undefined where the optional package is not installed. */
export const duckdb = await import("@duckdb/node-api").then(
  () => "@duckdb/node-api",
  () => undefined,
);
export const DUCKDB_REMEDY = "npm install @duckdb/node-api";

export const never = new AbortController().signal;

export async function openSearchWorld(options: WorldOptions = {}): Promise<SearchWorld> {
  const world = await openWorld(options);
  const indexFolder = join(world.folder, "index");
  const holdings = holdingsOf(world);
  const open = () =>
    openSearch({ holdings, folder: indexFolder, describe, memoryBytes: 200e6, nowMs: () => Date.now() });
  let search = await open();
  return {
    world,
    holdings,
    get search() {
      return search;
    },
    indexFolder,
    async reopen() {
      search.close();
      search = await open();
      return search;
    },
    close() {
      search.close();
      world.end();
    },
  };
}

export function holdingsOf(world: World): Holdings {
  const pages = openHeldPages(world.db, {
    name: "evidence",
    stagingFolder: join(world.folder, "staging"),
    retentionMs: RETENTION_MS,
  });
  return {
    place: world.storeFolder,
    async snapshot() {
      const { entries, pages: open, erasures } = pages.look();
      return { parts: heldPartsOf(entries, ORIGIN), pages: open, erasures };
    },
    frames: (part, signal) => heldFrames(world.store, part, signal),
    frame: (part, offset, length) => heldFrame(world.store, part.data, offset, length),
    page: pages.page,
    close: async () => {},
  };
}

export async function collect(found: AsyncIterable<readonly Hit[]>): Promise<Hit[]> {
  const hits: Hit[] = [];
  for await (const some of found) hits.push(...some);
  return hits;
}

export function textsOf(hits: readonly Hit[]): string[] {
  return hits.map(({ bytes }) => bytes.toString());
}
