import { readdirSync, readFileSync } from "node:fs";
import type { JournalEvent } from "../../src/core/event.ts";
import type { FormatContext } from "../../src/core/format.ts";
import { ecs } from "../../src/formats/ecs.ts";
import { ocsf } from "../../src/formats/ocsf.ts";
import { withRecipes } from "../../src/formats/recipes/with-recipes.ts";
import { describe } from "../../src/services/index.ts";
import { reads } from "../../src/services/read/read-paths.ts";

export const converters = {
  ocsf: converterOf((context) => ocsf.create({ schemaVersion: "1.8.0", rawData: false }, context)),
  ecs: converterOf((context) => ecs.create({ namespace: "tidemark", original: false }, context)),
  "ecs with a dataset": converterOf((context) =>
    ecs.create({ namespace: "jumpcloud", dataset: "jumpcloud.events", original: false }, context),
  ),
};

/** Without `reads` a format is the converter itself. */
function converterOf(create: (context: FormatContext) => { encode(event: JournalEvent): unknown }) {
  const format = create({ describe });
  return (event: JournalEvent) => String(format.encode(event));
}

export function withAllRecipes() {
  return Object.entries(converters).map(([name, converter]) => ({
    name,
    converter,
    recipes: withRecipes(converter, reads),
  }));
}

/** The texts of all fixture events. */
export function fixtureTexts(): string[] {
  const folder = "test/fixtures/services";
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".in.json"))
    .map((name) => readFileSync(`${folder}/${name}`, "utf8").trim());
}
