import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

/*
 * A leaf's value may be written or joined to other text. A look at it goes through `decide`, `test`, `same`,
 * `sameName` or `wordOf`, so that a search for these finds every path that the output depends on. The type
 * system enforces most of it; these are the ways around it.
 */
const WAYS_AROUND = [
  /\.value as\b/,
  /String\([^()]*\.value\)/,
  /typeof [\w.?!]+\.value\b(?! !== "string")/,
  /\.value\b\)?\s*(===|!==|<|>|<=|>=)\s/,
  /\.value\.(?!map\b)\w+\(/,
];

test("no format and no service looks at a leaf's value without deciding on it", () => {
  const found: string[] = [];
  for (const folder of ["src/formats", "src/services"])
    for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
      if (!name.endsWith(".ts")) continue;
      readFileSync(`${folder}/${name}`, "utf8")
        .split("\n")
        .forEach((line, at) => {
          if (/leaf\.value|\.value\b/.test(line) && WAYS_AROUND.some((way) => way.test(line)))
            found.push(`${folder}/${name}:${at + 1}: ${line.trim()}`);
        });
    }
  expect(found).toEqual([]);
});
