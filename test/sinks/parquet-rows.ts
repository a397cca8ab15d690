import { PARQUET_COLUMNS } from "../../src/sinks/parquet/schema.ts";

type Fields = Record<string, unknown>;

/**
 * An event of OCSF in one form, whether it came as a row or as JSON: without nulls and empty objects, and with
 * `unmapped` parsed. A row's `unmapped` also has the values that fit no column, under their paths: those are put
 * back where they belong. The same is done to both sides of a comparison.
 */
export function restored(event: unknown): unknown {
  const { unmapped, ...fields } = structuredClone(event) as Fields;
  const rest = (typeof unmapped === "string" ? JSON.parse(unmapped) : (unmapped ?? {})) as Fields;
  for (const [path, value] of Object.entries(rest)) {
    const steps = path.split(/\.|\[(\d+)\]/).filter((step) => step !== undefined && step !== "");
    if (!Object.hasOwn(PARQUET_COLUMNS, steps[0] ?? "")) continue;
    if (putBack(fields, steps, value)) delete rest[path];
  }
  return withoutNulls({ ...fields, unmapped: rest });
}

/** False where a value is there already. */
function putBack(holder: Fields, [step, ...more]: readonly string[], value: unknown): boolean {
  const present = holder[step!];
  if (more.length === 0) {
    if (present !== null && present !== undefined) return false;
    holder[step!] = value;
    return true;
  }
  if (typeof present === "object" && present !== null) return putBack(present as Fields, more, value);
  const made: Fields = {};
  holder[step!] = made;
  return putBack(made, more, value);
}

function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((element) => withoutNulls(element) ?? null);
  if (typeof value !== "object" || value === null) return value ?? undefined;
  const entries = Object.entries(value)
    .map(([name, inner]) => [name, withoutNulls(inner)] as const)
    .filter(([, inner]) => inner !== undefined && inner !== null);
  return entries.length === 0 ? undefined : Object.fromEntries(entries);
}

export function withoutLists(value: unknown): unknown {
  return withoutNulls(JSON.parse(JSON.stringify(value, (_, inner) => (Array.isArray(inner) ? null : inner))));
}
