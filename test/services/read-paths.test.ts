import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { reads } from "../../src/services/read/read-paths.ts";

/*
 * Recipes copy every member that read-paths.ts does not list. So each name that the code of services and formats
 * looks up in an event must be there. The mutation test of recipes shows that the kinds are right.
 */
const LOOKUPS = [
  /\b(?:text|flag|number)\([\w.?!]+, "([^"]+)"\)/g,
  /\bcase "([^"]+)":\n\s+(?:case "|[\w.?]+ \??\??=|found\[)/g,
  /\b(?:event|value|association|connection|context|asn|geoip|attributes)\??\.([a-z_]+)\b/g,
];
/** Members of values that decide as a whole, and words that are no members. */
const NO_PATHS: ReadonlySet<string> = new Set([
  ...["sudo", "error_code", "us_english_description", "localized_description"],
  ...["value", "holder", "key", "kind", "field", "from", "to", "success"],
  ...["length", "includes", "at", "optional", "ts"],
]);

test("every member that services look up is listed for recipes", () => {
  const names = new Set([...reads.paths.keys()].flatMap((path) => path.split(".")));
  const found = new Set<string>();
  for (const folder of ["src/services", "src/services/read"])
    for (const file of readdirSync(folder).filter((name) => name.endsWith(".ts"))) {
      if (/schema|drift|parse|index|read-paths|change/.test(file)) continue;
      const source = readFileSync(`${folder}/${file}`, "utf8");
      for (const pattern of LOOKUPS) for (const [, name] of source.matchAll(pattern)) found.add(name!);
    }
  expect(found.size).toBeGreaterThan(60);
  expect([...found].filter((name) => !names.has(name) && !NO_PATHS.has(name))).toEqual([]);
});
