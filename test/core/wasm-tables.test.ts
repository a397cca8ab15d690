import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { GZIP_PART_BYTES } from "../../src/core/deflate.ts";
import { IDENTITY_BYTES, STRIDE } from "../../src/core/page-scratch.ts";
import { FIELD, scanPage } from "../../src/core/scanner.ts";

/* Numbers that the WebAssembly module and TypeScript both use must be the same on both sides. */

function constantsOf(file: string): Map<string, number> {
  const text = readFileSync(file, "utf8");
  return new Map(
    [...text.matchAll(/^(?:export )?const ([A-Z_]+): i32 = (\d+);$/gm)].map(([, name, value]) => [
      name!,
      Number(value),
    ]),
  );
}

test("the columns of a scanned event", () => {
  const memory = constantsOf("wasm/memory.ts");
  expect(memory.get("STRIDE")).toBe(STRIDE);
  expect(memory.get("IDENTITY_BYTES")).toBe(IDENTITY_BYTES);
  expect({
    id: memory.get("ID"),
    timestamp: memory.get("TIMESTAMP"),
    service: memory.get("SERVICE"),
    eventType: memory.get("EVENT_TYPE"),
    organization: memory.get("ORGANIZATION"),
    correlationId: memory.get("CORRELATION"),
  }).toEqual(FIELD);
});

test("the numbers of what the scanner expected", () => {
  const scan = constantsOf("wasm/skip.ts");
  const source = readFileSync("src/core/scanner.ts", "utf8");
  const table = new Map(
    [...source.matchAll(/^ {2}(\d+): "(.*)",$/gm)].map(([, number, words]) => [Number(number), words!]),
  );
  const words: Readonly<Record<string, string>> = {
    WANTS_STRING: "a string",
    WANTS_REST_OF_STRING: "the rest of a string",
    WANTS_ESCAPE: "an escape",
    WANTS_HEX: "four hexadecimal digits",
    WANTS_COLON: "a colon",
    WANTS_VALUE: "a value",
    WANTS_OBJECT_END: "a comma or the end of the object",
    WANTS_VALUE_END: "a comma or the end of the value",
    WANTS_ARRAY_END: "a comma or the end of the array",
    WANTS_TEXT_END: "the end of the text",
  };
  expect(Object.fromEntries([...table])).toEqual(
    Object.fromEntries(Object.entries(words).map(([name, text]) => [scan.get(name), text])),
  );
  const single = ["NOT_ARRAY", "NOT_OBJECT", "TOO_DEEP"].map((name) =>
    Number(new RegExp(`^const ${name} = (\\d+);$`, "m").exec(source)?.[1]),
  );
  expect(single).toEqual(["WANTS_ARRAY", "WANTS_OBJECT", "WANTS_LESS_DEPTH"].map((name) => scan.get(name)));
});

test("the depth that values may be nested to", () => {
  const depth = constantsOf("wasm/skip.ts").get("DEPTH_MAX")!;
  const nested = (levels: number) => Buffer.from(`[{"a":${"[".repeat(levels)}${"]".repeat(levels)}}]`);
  expect(() => scanPage(nested(depth + 2))).toThrow(`nested more than ${depth} deep`);
  expect(scanPage(nested(depth - 2)).count).toBe(1);
});

test("the size of a part for the gzip writer", () => {
  expect(constantsOf("wasm/deflate/memory.ts").get("CHUNK_BYTES")).toBe(GZIP_PART_BYTES);
});
