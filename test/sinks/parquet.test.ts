import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parquet } from "../../src/formats/parquet.ts";
import { describe as describeEvent } from "../../src/services/index.ts";
import { createParquetFile } from "../../src/sinks/parquet/write.ts";
import { journalEvent } from "../formats/event.ts";
import { damaged, documentedTypes, seeded, syntheticEvent } from "../services/synthetic.ts";
import { skipUnless } from "../support/components.ts";
import { findDuckdb, findParquetCli, findPyarrow } from "../support/parquet-readers.ts";
import { restored, withoutLists } from "./parquet-rows.ts";

const format = parquet.create(parquet.options.parse({ rawData: true }), { describe: describeEvent });
const readers = [
  ["duckdb", await findDuckdb(), "npm install @duckdb/node-api"],
  ["pyarrow", await findPyarrow(), "run once with TIDEMARK_REQUIRE=pyarrow (python3, pip)"],
  ["parquet_cli", await findParquetCli(), "run once with TIDEMARK_REQUIRE=parquet_cli (java, mvn)"],
] as const;

/** Events of every documented type, some of them damaged, as lines of OCSF. */
function linesOf(count: number): string[] {
  const random = seeded(7);
  return Array.from({ length: count }, (_, at) => {
    const { service, eventType } = documentedTypes[at % documentedTypes.length]!;
    const whole = syntheticEvent(service, eventType, random);
    const event = at % 3 === 0 ? damaged(whole, random, 4) : whole;
    return Buffer.from(format.encode(journalEvent(JSON.stringify(event)))).toString();
  });
}

describe("parquet files", () => {
  const lines = linesOf(1200);
  let folder: string;
  let file: string;
  let pieces: number;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "tidemark-parquet-"));
    file = join(folder, "events.parquet");
    const writer = await createParquetFile({ rowsMax: 500, bytesMax: 1 << 20 });
    const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(""));
    const written: Uint8Array[] = [];
    // Pieces that end inside lines, as a file is read.
    for (let at = 0; at < bytes.length; at += 10_007)
      written.push(...writer.add(bytes.subarray(at, at + 10_007)));
    pieces = written.length;
    written.push(...writer.end({ "tidemark-sha256": "ab" }));
    writeFileSync(file, Buffer.concat(written));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test("row groups are handed on before the file ends, so memory is bounded by one", () => {
    expect(pieces).toBeGreaterThan(1);
  });

  for (const [component, reader, remedy] of readers) {
    test.skipIf(skipUnless(component, reader, remedy))(
      `${component} reads every event with all that it holds`,
      async () => {
        const rows = await reader!.rows(file);
        expect(rows).toHaveLength(lines.length);
        // Apache's command line shows lists as null, in files of other writers too.
        const shown = (event: unknown) =>
          component === "parquet_cli" ? withoutLists(restored(event)) : restored(event);
        for (const [at, row] of rows.entries()) expect(shown(row)).toEqual(shown(JSON.parse(lines[at]!)));
      },
    );
  }

  test.skipIf(readers[0][1] === undefined)("the columns can be queried by name and type", async () => {
    const { DuckDBInstance } = await import("@duckdb/node-api");
    const connection = await (await DuckDBInstance.create(":memory:")).connect();
    const run = async (sql: string) => (await connection.runAndReadAll(sql)).getRowObjectsJson();
    const types = await run(`DESCRIBE SELECT * FROM '${file}'`);
    const typeOf = (name: string) => types.find(({ column_name: own }) => own === name)?.column_type;
    expect(typeOf("class_uid")).toBe("INTEGER");
    expect(typeOf("time")).toBe("BIGINT");
    expect(typeOf("unmapped")).toBe("VARCHAR");
    expect(typeOf("privileges")).toBe("VARCHAR[]");
    expect(String(typeOf("user"))).toMatch(/^STRUCT\(.*email_addr VARCHAR/);
    const counted = await run(
      `SELECT count(*)::INT AS n FROM '${file}' WHERE class_uid = 3002 AND metadata.uid IS NOT NULL AND time > 0`,
    );
    const logins = lines.filter((line) => line.startsWith('{"class_uid":3002')).length;
    expect(counted[0]!.n).toBe(logins);
    connection.closeSync();
  });
});
