import { parquetMetadata } from "hyparquet";
import { expect, test } from "vitest";
import { parquet } from "../../src/formats/parquet.ts";
import { describe as describeEvent, services } from "../../src/services/index.ts";
import { parquetRowOf } from "../../src/sinks/parquet/row.ts";
import { schemaElements } from "../../src/sinks/parquet/schema.ts";
import { parquetOf } from "../../src/sinks/parquet/write.ts";
import { fixturesOf } from "../contract/service.ts";
import { journalEvent } from "../formats/event.ts";
import { restored } from "./parquet-rows.ts";

const row = (line: string) => parquetRowOf(Buffer.from(line));

test("every fixture's OCSF is whole in its row, and what has a column is not in unmapped", () => {
  const format = parquet.create(parquet.options.parse({}), { describe: describeEvent });
  let count = 0;
  for (const { name } of services)
    for (const { text } of fixturesOf(name)) {
      const line = Buffer.from(format.encode(journalEvent(text))).toString();
      const { unmapped, ...fields } = JSON.parse(line) as Record<string, unknown>;
      const made = row(line);
      const plain = JSON.parse(
        JSON.stringify(made, (_, value) => (typeof value === "bigint" ? Number(value) : value)),
      );
      expect(restored(plain)).toEqual(restored({ ...fields, unmapped }));
      expect(made.unmapped).toBe(unmapped === undefined ? null : JSON.stringify(unmapped));
      count++;
    }
  expect(count).toBeGreaterThan(60);
});

test("unmapped is cut from the line: its numbers, spaces and duplicate names stay", () => {
  const rest = '{ "n":12345678901234567890, "n": 1e400,"t":"\\u00e9" }';
  expect(row(`{"class_uid":3002,"unmapped":${rest},"time":1}`)).toMatchObject({
    class_uid: 3002,
    time: 1n,
    unmapped: rest,
  });
});

test.each([
  ["a member without a column", '"brand_new":{"a":[1]}', '{"brand_new":{"a":[1]}}'],
  ["a value of another type", '"status":7', '{"status":7}'],
  ["a number that is no integer", '"class_uid":1.5', '{"class_uid":1.5}'],
  ["a number beyond 32 bits", '"severity_id":4294967296', '{"severity_id":4294967296}'],
  ["an inner member", '"user":{"name":"a","risk":{"x":1}}', '{"user.risk":{"x":1}}'],
  ["an element of a list", '"privileges":["a",{"b":1}]', '{"privileges[1]":{"b":1}}'],
  ["text instead of a list", '"privileges":"all"', '{"privileges":"all"}'],
  ["half a surrogate pair", '"message":"\\ud800"', '{"message":"\\ud800"}'],
])("%s goes to unmapped under its path", (_, member, unmapped) => {
  expect(row(`{${member}}`).unmapped).toBe(unmapped);
  const both = row(`{${member},"unmapped":{"x":1}}`).unmapped;
  expect(both).toBe(`{"x":1,${unmapped.slice(1)}`);
});

test("the schema is fixed: it may grow, but nothing of it changes", async () => {
  const paths: string[] = [];
  const walk = (elements: ReturnType<typeof schemaElements>, at: number, path: string): number => {
    const { name, num_children: children = 0, type } = elements[at]!;
    const own = path === "" ? name : `${path}.${name}`;
    let next = at + 1;
    if (type !== undefined) paths.push(`${own} ${type}`);
    for (let child = 0; child < children; child++) next = walk(elements, next, own);
    return next;
  };
  const elements = schemaElements();
  expect(walk(elements, 0, "")).toBe(elements.length);
  await expect(`${paths.join("\n")}\n`).toMatchFileSnapshot("../fixtures/parquet-schema.txt");
});

test("wrong bounds of text are left out, because readers would skip rows by them", async () => {
  const texts = ["\uffee", "🦊"];
  const lines = texts
    .map((message) => `${JSON.stringify({ class_uid: 1, message, status: "ok" })}\n`)
    .join("");
  const file = await parquetOf(Buffer.from(lines));
  const { buffer, byteOffset, byteLength } = file;
  const meta = parquetMetadata(buffer.slice(byteOffset, byteOffset + byteLength) as ArrayBuffer);
  const statisticsOf = (name: string) =>
    meta.row_groups[0]!.columns.find(({ meta_data: own }) => own!.path_in_schema.join(".") === name)!
      .meta_data!.statistics;
  expect(statisticsOf("message")?.min_value).toBeUndefined();
  expect(statisticsOf("message")?.max_value).toBeUndefined();
  expect(statisticsOf("status")?.max_value).toBe("ok");
  expect(statisticsOf("class_uid")?.max_value).toBe(1);
});
