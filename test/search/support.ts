import { join } from "node:path";
import { createPartList, heldFrames, storedFrames } from "../../src/archive/evidence/held-parts.ts";
import type { Holdings } from "../../src/core/holdings.ts";
import { openHeldPages } from "../../src/journal/held-pages.ts";
import { openSearch, type Search } from "../../src/search/engine/search.ts";
import type { Hit } from "../../src/search/find/fetch.ts";
import { describe } from "../../src/services/index.ts";
import { ORIGIN, openWorld, RETENTION_MS, type World, type WorldOptions } from "../archive/world.ts";
import type { World as CommandWorld } from "../support/world.ts";

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

function holdingsOf(world: World): Holdings {
  const pages = openHeldPages(world.db, {
    name: "evidence",
    stagingFolder: join(world.folder, "staging"),
    retentionMs: RETENTION_MS,
  });
  const partsIn = createPartList(ORIGIN);
  return {
    place: world.storeFolder,
    async snapshot() {
      const { entries, pages: open, erasures } = pages.look();
      return { parts: partsIn(entries), pages: open, erasures };
    },
    frames: (part, signal) => heldFrames(world.store, part, signal),
    stored: (part, offset, length) => storedFrames(world.store, part.data, offset, length),
    page: pages.page,
    pageKey: pages.pageKey,
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

export interface SimpleEvent {
  readonly id?: string;
  readonly timestamp: string;
  readonly organization?: string;
  readonly service: string;
  readonly event_type?: string;
  readonly client_ip?: string;
  readonly initiated_by?: { readonly id?: string; readonly email?: string };
  readonly application?: { readonly id?: string };
  readonly system?: { readonly hostname?: string };
}

/** Events by their full time, as search orders them up to equal times. */
export function byTime(texts: readonly string[]): { readonly text: string; readonly event: SimpleEvent }[] {
  const full = ({ timestamp }: SimpleEvent) =>
    timestamp.replace(/(?:\.(\d+))?Z$/, (_, digits = "") => `.${String(digits).padEnd(9, "0")}`);
  return texts
    .map((text) => ({ text, event: JSON.parse(text) as SimpleEvent }))
    .sort((a, b) => (full(a.event) < full(b.event) ? -1 : 1));
}

/** Runs the exporter once, with a file sink and an archive that closes what it can. */
export async function archivedWorld(
  world: CommandWorld,
  more: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<string> {
  const key = world.at("archive.key");
  const made = await world.run(["archive", "keys", "new", key, "--origin", "example.com/evidence"]);
  world.configure({
    sinks: [
      `{ name: disk, type: file, directory: ${world.at("events")} }`,
      `{ name: evidence, type: archive, origin: example.com/evidence, key: { file: ${key} }, store: { directory: ${world.at("archive")} }, settle: 0s }`,
    ],
    more,
  });
  const ran = await world.run(["run", "--once", "--config", world.at("tidemark.yaml")], { env });
  if (ran.code !== 0) throw new Error(ran.stderr);
  return made.stdout.trim();
}
