import type { DuckDBConnection } from "@duckdb/node-api";
import { UsageError } from "../../core/errors.ts";

/** Functions that make rows from their arguments alone. All others could read files or change settings. */
const FUNCTIONS = ["range", "generate_series", "unnest", "json_each", "json_tree"];
const VIEW = "events";

/** Refuses a SELECT that reads from anything but the view, its own subqueries, and a few harmless functions (A26). */
export async function refuseOtherTables(connection: DuckDBConnection, text: string): Promise<void> {
  const reader = await connection.runAndReadAll("SELECT json_serialize_sql(?::VARCHAR)", [text]);
  const parsed = JSON.parse(String(reader.getRows()[0]![0])) as { error: boolean; statements?: unknown };
  if (parsed.error)
    throw new UsageError("This form of SELECT is not accepted. Write it as SELECT … FROM events.");
  const sources = [...sourcesIn(parsed.statements)];
  const own = new Set([VIEW, ...sources.flatMap(({ kind, name }) => (kind === "cte" ? [name] : []))]);
  for (const { kind, name } of sources) {
    if (kind === "table" && !own.has(name))
      throw new UsageError(`There is no table "${name}": the view "${VIEW}" is the only one.`);
    if (kind === "function" && !FUNCTIONS.includes(name))
      throw new UsageError(
        `The table function ${name} is not accepted. Those that are: ${FUNCTIONS.join(", ")}.`,
      );
  }
}

interface Source {
  readonly kind: "cte" | "table" | "function";
  readonly name: string;
}

/** Everything that a syntax tree reads from. Names compare without regard to case. */
function* sourcesIn(node: unknown): Generator<Source> {
  if (typeof node !== "object" || node === null) return;
  const own = node as {
    readonly type?: unknown;
    readonly table_name?: unknown;
    readonly function?: { readonly function_name?: unknown };
    readonly cte_map?: { readonly map?: readonly { readonly key?: unknown }[] };
  };
  const named = (kind: Source["kind"], name: unknown) => ({ kind, name: String(name).toLowerCase() });
  if (own.type === "BASE_TABLE") yield named("table", own.table_name);
  if (own.type === "TABLE_FUNCTION") yield named("function", own.function?.function_name);
  for (const { key } of own.cte_map?.map ?? []) yield named("cte", key);
  for (const child of Object.values(node)) yield* sourcesIn(child);
}
