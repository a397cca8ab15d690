// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { expect, test } from "vitest";
import { formats } from "../../src/formats/index.ts";
import { formatContract } from "../contract/format.ts";

/** The formats that are written down in fixtures, and the ending of their files. */
const ENDINGS: Readonly<Record<string, string>> = {
  ocsf: "ocsf.json",
  ecs: "ecs.json",
  cef: "cef.txt",
  leef: "leef.txt",
};

for (const format of formats) formatContract(format, ENDINGS[format.name]);

test("formats have names of their own", () => {
  expect(new Set(formats.map((format) => format.name)).size).toBe(formats.length);
});
