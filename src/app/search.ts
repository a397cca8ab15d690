import { hash } from "node:crypto";
import { join } from "node:path";
import { openDirectory } from "../archive/store/directory.ts";
import type { Config } from "../config/schema.ts";
import { systemClock } from "../core/clock.ts";
import type { Holdings } from "../core/holdings.ts";
import { openSearch, type Search } from "../search/engine/search.ts";
import { describe } from "../services/index.ts";
import { openHoldings, storeHoldings } from "./holdings.ts";
import { searchFolder } from "./search-folder.ts";

export interface OpenedSearch {
  readonly search: Search;
  readonly holdings: Holdings;
  close(): Promise<void>;
}

const STORE_MEMORY_BYTES = 200_000_000;

/** Search over what a config holds. */
export async function openConfiguredSearch(config: Config, archive?: string): Promise<OpenedSearch> {
  const name = archive ?? config.search.archive;
  const holdings = await openHoldings(config, name);
  const folder = join(config.search.index ?? join(searchFolder(config), "index"), name ?? "default");
  return opened(holdings, folder, config.search.memory);
}

/** Search over an archive in a directory, without a config. The index goes to a cache folder. */
export async function openStoreSearch(directory: string, cacheFolder: string): Promise<OpenedSearch> {
  const holdings = storeHoldings(await openDirectory(directory));
  const folder = join(cacheFolder, hash("sha256", directory, "hex").slice(0, 16));
  return opened(holdings, folder, STORE_MEMORY_BYTES);
}

async function opened(holdings: Holdings, folder: string, memoryBytes: number): Promise<OpenedSearch> {
  try {
    const search = await openSearch({ holdings, folder, describe, memoryBytes, nowMs: systemClock.now });
    return {
      search,
      holdings,
      async close() {
        search.close();
        await holdings.close();
      },
    };
  } catch (error) {
    await holdings.close();
    throw error;
  }
}
