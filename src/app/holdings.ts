import { existsSync } from "node:fs";
import { join } from "node:path";
import type { ArchiveConfig } from "../archive/config.ts";
import { createPartList, heldFrames, storedFrames } from "../archive/evidence/held-parts.ts";
import { readLog } from "../archive/evidence/read.ts";
import { openStore } from "../archive/open.ts";
import type { ArchiveStore } from "../archive/store/store.ts";
import type { Config } from "../config/schema.ts";
import { systemClock } from "../core/clock.ts";
import { UsageError } from "../core/errors.ts";
import type { HeldPart, Holdings } from "../core/holdings.ts";
import { openStateForReading } from "../journal/database.ts";
import { openHeldPages } from "../journal/held-pages.ts";
import { archiveConfigs, archiveFolder } from "./archives.ts";
import { createStateCheck } from "./older-state.ts";

/** What a config holds: its archive, where it has one, and its journal, where there is a state file. */
export async function openHoldings(config: Config, name: string | undefined): Promise<Holdings> {
  const archive = chosenArchive(config, name);
  const store = archive && (await openStore(archive.store, systemClock));
  if (!existsSync(config.state)) {
    if (store !== undefined) return storeHoldings(store);
    throw new UsageError(
      `There is nothing to search: the state file ${config.state} does not exist, and the config has no archive. Start "tidemark run" first.`,
    );
  }
  const db = openStateForReading(config.state);
  const pages = openHeldPages(
    db,
    archive === undefined
      ? null
      : {
          name: archive.name,
          stagingFolder: join(archiveFolder(config.state, archive.name), "pages"),
          retentionMs: Math.max(...config.accounts.map(({ retention }) => retention)),
        },
  );
  const checkState =
    archive === undefined || store === undefined ? async () => {} : createStateCheck(archive, store, db);
  const partsIn = archive === undefined ? () => [] : createPartList(archive.origin);
  return {
    ...(store === undefined ? noParts : partsOf(store)),
    place: store?.place ?? config.state,
    async snapshot() {
      await checkState();
      const { entries, pages: open, erasures } = pages.look();
      return { parts: partsIn(entries), pages: open, erasures };
    },
    page: pages.page,
    pageKey: pages.pageKey,
    async close() {
      db.close();
      await store?.close();
    },
  };
}

/** An archive by itself: every part of its log, and no journal. */
export function storeHoldings(store: ArchiveStore): Holdings {
  let known: { readonly checkpoint: Buffer; readonly parts: readonly HeldPart[] } | undefined;
  return {
    ...partsOf(store),
    place: store.place,
    async snapshot() {
      const now = await store.read("log/checkpoint");
      if (known === undefined || !now?.equals(known.checkpoint)) {
        const { entries, checkpoint } = await readLog(store);
        known = { checkpoint: checkpoint.bytes, parts: createPartList(checkpoint.origin)(entries) };
      }
      return { parts: known.parts, pages: [], erasures: "" };
    },
    page: () => undefined,
    pageKey: () => undefined,
    close: () => store.close(),
  };
}

function partsOf(store: ArchiveStore): Pick<Holdings, "frames" | "stored"> {
  return {
    frames: (part, signal) => heldFrames(store, part, signal),
    stored: (part, offset, length) => storedFrames(store, part.data, offset, length),
  };
}

const noParts: Pick<Holdings, "frames" | "stored"> = {
  async *frames() {},
  stored: async () => undefined,
};

export function chosenArchive(
  config: Config,
  name: string | undefined,
): (ArchiveConfig & { readonly name: string }) | undefined {
  const all = archiveConfigs(config);
  if (name === undefined && all.length <= 1) return all[0];
  const found = all.find((one) => one.name === name);
  if (found !== undefined) return found;
  throw new UsageError(
    `Name one of the archives with --archive: ${all.map((one) => one.name).join(", ") || "the config has none"}.`,
  );
}
