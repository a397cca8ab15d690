import { membersOf, skipSpace, stringAt, textAt } from "../shared/json-slices.ts";
import { type Column, PARQUET_COLUMNS, type ParquetLeaf, UNMAPPED } from "./schema.ts";

/** The values of a line by column; null where it has none. */
export type ParquetRow = Readonly<Record<string, unknown>>;

/**
 * The row of one line of OCSF. A member that has no column, or a value that does not fit its column's type, goes
 * to `unmapped` under its path, so that nothing of the event is missing. The text of `unmapped` itself is cut
 * from the line: its numbers keep their digits.
 */
export function parquetRowOf(line: Uint8Array): ParquetRow {
  const row: Record<string, unknown> = {};
  const rest: string[] = [];
  let unmapped = "";
  for (const { name, value } of membersOf(line, skipSpace(line, 0))) {
    const own = stringAt(line, name);
    const column = Object.hasOwn(PARQUET_COLUMNS, own) ? PARQUET_COLUMNS[own]! : undefined;
    if (own === UNMAPPED) unmapped = textAt(line, value);
    else if (column === undefined) rest.push(`${textAt(line, name)}:${textAt(line, value)}`);
    else row[own] = fitted(JSON.parse(textAt(line, value)), column, own, rest);
  }
  row[UNMAPPED] = withMembers(unmapped, rest);
  return row;
}

/** The value as the column takes it; what it cannot take is added to `rest`. */
function fitted(value: unknown, column: Column, path: string, rest: string[]): unknown {
  if (value === null || value === undefined) return null;
  if (typeof column === "string") {
    const fitting = leafOf(value, column);
    if (fitting === undefined) rest.push(`${JSON.stringify(path)}:${JSON.stringify(value)}`);
    return fitting ?? null;
  }
  if ("list" in column) {
    if (!Array.isArray(value)) {
      rest.push(`${JSON.stringify(path)}:${JSON.stringify(value)}`);
      return null;
    }
    return value.map((element, at) => fitted(element, column.list, `${path}[${at}]`, rest));
  }
  if (typeof value !== "object" || Array.isArray(value)) {
    rest.push(`${JSON.stringify(path)}:${JSON.stringify(value)}`);
    return null;
  }
  const fields: Record<string, unknown> = {};
  for (const [name, inner] of Object.entries(value)) {
    const own = Object.hasOwn(column.struct, name) ? column.struct[name] : undefined;
    if (own === undefined) rest.push(`${JSON.stringify(`${path}.${name}`)}:${JSON.stringify(inner)}`);
    else fields[name] = fitted(inner, own, `${path}.${name}`, rest);
  }
  return fields;
}

const LONE_SURROGATE = /\p{Surrogate}/u;
const INT_MAX = 2 ** 31 - 1;

/** Undefined where the value is of another type. */
function leafOf(value: unknown, leaf: ParquetLeaf): unknown {
  switch (leaf) {
    case "string":
      // Half a surrogate pair has no form in UTF-8; as JSON text it keeps its escape.
      return typeof value === "string" && !LONE_SURROGATE.test(value) ? value : undefined;
    case "json":
      return JSON.stringify(value);
    case "int":
      return Number.isInteger(value) && Math.abs(value as number) <= INT_MAX ? value : undefined;
    case "long":
      return Number.isSafeInteger(value) ? BigInt(value as number) : undefined;
    case "double":
      return typeof value === "number" ? value : undefined;
    case "boolean":
      return typeof value === "boolean" ? value : undefined;
  }
}

/** The object's text with more members at its end; null where there is neither. */
function withMembers(object: string, members: readonly string[]): string | null {
  if (members.length === 0) return object === "" ? null : object;
  const body = object.trimStart().startsWith("{") ? object.trim().slice(1, -1).trim() : "";
  const own = object === "" || body !== "" || object.trim() === "{}" ? [] : [`"${UNMAPPED}":${object}`];
  return `{${[...(body === "" ? [] : [body]), ...own, ...members].join(",")}}`;
}
