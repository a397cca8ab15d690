import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { proveEvent } from "../archive/evidence/prove.ts";
import { openStore } from "../archive/open.ts";
import type { Config } from "../config/schema.ts";
import { dayOf } from "../core/archive.ts";
import { systemClock } from "../core/clock.ts";
import type { JournalEvent } from "../core/event.ts";
import { UNDATED_NS } from "../core/held-event.ts";
import { openStateForReading } from "../journal/database.ts";
import { type EventJourney, journeyOf } from "../journal/event-journey.ts";
import type { Hit } from "../search/find/fetch.ts";
import type { Delivered, EventFacts } from "../search/service/options.ts";
import { createSearchService, type SearchService } from "../search/service/service.ts";
import { describe } from "../services/index.ts";
import { chosenArchive } from "./holdings.ts";
import { openConfiguredSearch } from "./search.ts";
import { searchFolder } from "./search-folder.ts";
import { createFormat, sinkConfigs, wantsOf } from "./sinks.ts";

/** The service of a search process, over what the config holds. */
export async function openSearchService(
  config: Config,
): Promise<{ service: SearchService; close(): Promise<void> }> {
  const opened = await openConfiguredSearch(config);
  const service = createSearchService({
    search: opened.search,
    describe,
    facts: factsOf(config),
    scanMax: config.search.scanMax,
    cursorSecret: secretIn(searchFolder(config)),
    nowMs: systemClock.now,
  });
  return { service, close: opened.close };
}

function factsOf(config: Config): EventFacts {
  const ocsf = createFormat("ocsf", {});
  return {
    ocsf: (event) => String(ocsf.encode(event)),
    journey: (event) => deliveredTo(config, event),
    prove: (hit) => proofOf(config, hit),
  };
}

/** For each sink of the config what became of the event. */
function deliveredTo(config: Config, event: JournalEvent): Delivered[] {
  if (!existsSync(config.state)) return [];
  const db = openStateForReading(config.state);
  try {
    const journey = journeyOf(db, event);
    return sinkConfigs(config).map((sink) => ({
      sink: sink.name,
      ...stateAt(sink.name, wantsOf(sink)(event), journey),
    }));
  } finally {
    db.close();
  }
}

function stateAt(
  sink: string,
  isWanted: boolean,
  { page, passed, deadLetters }: EventJourney,
): Pick<Delivered, "state" | "note"> {
  const reason = deadLetters.get(sink);
  if (reason !== undefined) return { state: "dead_letter", note: `The sink refused it: ${reason}` };
  if (!isWanted) return { state: "left_out", note: "The sink's filter leaves it out." };
  if (page === undefined)
    return { state: "unknown", note: "The event is older than the record of deliveries." };
  return passed.has(sink)
    ? { state: "delivered", note: "The sink's position is past it." }
    : { state: "waiting", note: "The sink has not come to it yet." };
}

async function proofOf(config: Config, hit: Hit): Promise<unknown> {
  const archive = chosenArchive(config, config.search.archive);
  if (archive === undefined) return undefined;
  const store = await openStore(archive.store, systemClock);
  try {
    const { organization, identity: event, timeNs } = hit;
    const day = timeNs === UNDATED_NS ? undefined : dayOf(Number(timeNs / 1_000_000n));
    const proofs = await proveEvent(store, { event, organization, day });
    const bytes = hit.bytes.toString("base64");
    return proofs.find((proof) => proof.event?.bytes === bytes);
  } finally {
    await store.close();
  }
}

/** Made once, so that cursors survive a restart of the process. */
function secretIn(folder: string): string {
  const path = join(folder, "cursors.key");
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    writeFileSync(path, randomBytes(32).toString("hex"), { flag: "wx", mode: 0o600 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
  return readFileSync(path, "utf8");
}
