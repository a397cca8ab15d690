import { readdirSync, readFileSync } from "node:fs";
import { allocateAnew } from "../../src/core/buffer-pool.ts";
import type { JournalEvent } from "../../src/core/event.ts";
import { type Format, type FormatContext, MANY_MAX } from "../../src/core/format.ts";
import type { JournalPage } from "../../src/core/journal.ts";
import { leaseOf } from "../../src/core/page-lease.ts";
import { preparePage } from "../../src/core/prepare-page.ts";
import { createRecordEngine, recordEvents } from "../../src/core/record-engine.ts";
import { ecs } from "../../src/formats/ecs.ts";
import { ocsf } from "../../src/formats/ocsf.ts";
import { type MakeEncode, withRecipes } from "../../src/formats/recipes/with-recipes.ts";
import { storedPage } from "../../src/journal/stored-page.ts";
import { describe } from "../../src/services/index.ts";
import { reads } from "../../src/services/read/read-paths.ts";
import { FETCHED_AT_MS } from "./event.ts";

export const makers = {
  ocsf: makerOf((context) => ocsf.create({ schemaVersion: "1.8.0", rawData: false }, context)),
  ecs: makerOf((context) => ecs.create({ namespace: "tidemark", original: false }, context)),
  "ecs with a dataset": makerOf((context) =>
    ecs.create({ namespace: "jumpcloud", dataset: "jumpcloud.events", original: false }, context),
  ),
};

export const converters = { ocsf: makers.ocsf(describe), ecs: makers.ecs(describe) };

/** Without `reads` a format is the converter itself. */
function makerOf(create: (context: FormatContext) => { encode(event: JournalEvent): unknown }): MakeEncode {
  return (describe) => {
    const format = create({ describe });
    return (event) => String(format.encode(event));
  };
}

export function recipesOf(make: MakeEncode, own = reads, onMismatch?: FormatContext["onMismatch"]) {
  return withRecipes(make, describe, own, onMismatch);
}

export function withAllRecipes() {
  return Object.entries(makers).map(([name, make]) => ({
    name,
    converter: make(describe),
    recipes: recipesOf(make),
  }));
}

export const LOGIN = {
  id: "6673f46a6a0f4e407b0f293f",
  organization: "0ed99129c72ac75bace7678a",
  service: "directory",
  event_type: "user_login_attempt",
  timestamp: "2026-10-16T20:35:34.936980733Z",
  "@version": 1,
  username: "miguel",
  initiated_by: { type: "user", id: "0d7544082debb62285660459", email: "miguel@delta.example" },
  client_ip: "203.0.113.92",
  geoip: { country_code: "in", latitude: 12.9719, longitude: 77.5937, city_name: "bengaluru" },
  success: true,
  mfa: true,
  trace_context: "ec7e08698188d712",
};

/** The texts of all fixture events. */
export function fixtureTexts(): string[] {
  const folder = "test/fixtures/services";
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".in.json"))
    .map((name) => readFileSync(`${folder}/${name}`, "utf8").trim());
}

const recordEngine = createRecordEngine(reads);

/** A page as readers of the journal get it, with records of its events where these are lines. */
export function pageOfTexts(
  texts: readonly string[],
  {
    organization = null as string | null,
    twins = {} as Record<string, string>,
    number = 7,
    first = 0,
    records = true,
  } = {},
): JournalPage {
  const { scanned, identities } = preparePage(Buffer.from(`[${texts.join(",")}]`), {
    organizations: [],
    provider: "p",
  });
  const made = records ? recordEvents(recordEngine, scanned, allocateAnew) : undefined;
  const lease = leaseOf(scanned.bytes, () => {});
  return storedPage(
    "journal",
    {
      ...{ number, account: "acme", organization, provider: null, reader: null, rolling: "" },
      ...{ fetchedMs: FETCHED_AT_MS, newestMs: FETCHED_AT_MS, events: scanned.count },
      ...{ bytes: scanned.bytes.length, twins: JSON.stringify(twins), checksum: Buffer.alloc(8) },
    },
    { scanned, lease, identities, records: made },
    first,
  );
}

/** The lines that `encodeMany` gives for all events of a page. */
export function manyLines(
  recipes: Pick<Required<Format>, "encodeMany">,
  page: JournalPage,
  atOnce = MANY_MAX,
): string[] {
  const lines: string[] = [];
  for (let from = 0; from < page.count; ) {
    const many = recipes.encodeMany(page, from, Math.min(page.count, from + atOnce));
    if (many === undefined) throw new Error("They have to be encoded one by one.");
    if (many.ends.length === 0) throw new Error("It made no line.");
    from += many.ends.length;
    let start = 0;
    for (const end of many.ends) {
      const line = Buffer.from(many.bytes.subarray(start, end)).toString("utf8");
      if (!line.endsWith("\n")) throw new Error(`There is no line break behind ${line}`);
      lines.push(line.slice(0, -1));
      start = end;
    }
    if (start !== many.bytes.length) throw new Error("There is more than the lines.");
  }
  return lines;
}
