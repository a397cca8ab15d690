import { Problem } from "../http/problem.ts";

type Row = Readonly<Record<string, unknown>>;

const limitDefault = 10;
const limitMaximum = 100;

/** fields, limit, skip, sort and filter over rows, answered in the list wrapper. */
export function listWrapper(rows: readonly Row[], query: URLSearchParams, defaultSort: string) {
  const found = filtered(rows, query.get("filter"));
  sortRows(found, query.get("sort") ?? defaultSort);
  return {
    results: slice(found, query).map((row) => pickFields(row, query.get("fields"))),
    totalCount: found.length,
  };
}

export function pickFields(row: Row, fields: string | null): Row {
  const names = fields?.split(" ").filter((name) => name !== "") ?? [];
  if (names.length === 0) return row;
  const picked: Record<string, unknown> = { _id: row._id };
  for (const name of names) if (name in row) picked[name] = row[name];
  return picked;
}

/** limit and skip alone, for the endpoints that answer plain arrays. */
export function slice<T>(rows: readonly T[], query: URLSearchParams): T[] {
  const limit = Math.min(whole(query, "limit", limitDefault, 1), limitMaximum);
  const skip = whole(query, "skip", 0, 0);
  return rows.slice(skip, skip + limit);
}

function whole(query: URLSearchParams, name: string, fallback: number, minimum: number): number {
  const text = query.get(name);
  if (text === null) return fallback;
  if (!/^\d+$/.test(text) || Number(text) < minimum)
    throw new Problem(400, `${name} must be an integer of at least ${minimum}`);
  return Number(text);
}

function sortRows(rows: Row[], sort: string): void {
  const keys = sort.split(" ").filter((key) => key !== "");
  rows.sort((a, b) => {
    for (const key of keys) {
      const descending = key.startsWith("-");
      const order = compare(a[descending ? key.slice(1) : key], b[descending ? key.slice(1) : key]);
      if (order !== 0) return descending ? -order : order;
    }
    return 0;
  });
}

function compare(a: unknown, b: unknown): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  const [left, right] = [String(a ?? ""), String(b ?? "")];
  return left < right ? -1 : left > right ? 1 : 0;
}

/** The expressions `field:$eq:value`, `$ne`, `$gt`, `$lt`, and `field:value`, joined by `&&`. */
function filtered(rows: readonly Row[], filter: string | null): Row[] {
  if (filter === null || filter.trim() === "") return [...rows];
  const tests = filter.split("&&").map((expression) => {
    const match = /^([\w.]+):(?:\$(eq|ne|gt|lt):)?(.*)$/.exec(expression.trim());
    if (match === null) throw new Problem(400, `filter is not understood: ${expression.slice(0, 80)}`);
    const [, field, operator = "eq", value] = match;
    return (row: Row) => matches(row[field!], operator, value!);
  });
  return rows.filter((row) => tests.every((test) => test(row)));
}

function matches(found: unknown, operator: string, value: string): boolean {
  const order = compare(
    typeof found === "number" ? found : String(found ?? ""),
    typeof found === "number" ? Number(value) : value,
  );
  if (operator === "eq") return order === 0;
  if (operator === "ne") return order !== 0;
  return operator === "gt" ? order > 0 : order < 0;
}
