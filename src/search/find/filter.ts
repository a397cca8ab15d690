import { UsageError } from "../../core/errors.ts";
import { COLUMNS, wordFilter } from "../columns.ts";

/** What is looked for. All conditions apply together; the values of one list are alternatives. */
export interface Filter {
  readonly users?: readonly string[] | undefined;
  readonly ips?: readonly string[] | undefined;
  readonly eventTypes?: readonly string[] | undefined;
  readonly services?: readonly string[] | undefined;
  readonly organizations?: readonly string[] | undefined;
  readonly outcomes?: readonly string[] | undefined;
  readonly applications?: readonly string[] | undefined;
  readonly devices?: readonly string[] | undefined;
  readonly correlations?: readonly string[] | undefined;
  readonly ids?: readonly string[] | undefined;
  /** A person or a device, by any name, address or id. */
  readonly anyone?: readonly string[] | undefined;
  /** Anywhere in the event's values, without regard to case. */
  readonly text?: string | undefined;
  readonly fromNs?: bigint | undefined;
  /** Not included. */
  readonly toNs?: bigint | undefined;
}

/** A condition in SQL, with its values apart: no value is ever part of the text. */
export interface Condition {
  readonly sql: string;
  readonly values: readonly (string | bigint)[];
}

export const SEARCH_OUTCOMES = ["success", "failure", "unknown"];

export function conditionOf(filter: Filter): Condition {
  const parts: Condition[] = [];
  const add = (sql: string, values: readonly (string | bigint)[]) => parts.push({ sql, values });
  const any = (values: readonly string[] | undefined, one: (value: string) => Condition) => {
    if (values === undefined) return;
    const all = values.map(one);
    add(
      `(${all.map(({ sql }) => sql).join(" OR ") || "false"})`,
      all.flatMap((each) => [...each.values]),
    );
  };
  const equals = (column: string) => (value: string) => ({
    sql: `lower("${column}") = ?`,
    values: [value.toLowerCase()],
  });
  const matches = (column: string) => (value: string) =>
    value.includes("*")
      ? { sql: `lower("${column}") LIKE ? ESCAPE '\\'`, values: [patternOf(value)] }
      : equals(column)(value);
  const has = (column: string) => (value: string) => ({
    sql: `contains("${column}", ?)`,
    values: [wordFilter(value)],
  });
  any(filter.organizations, equals("organization"));
  any(filter.services, matches("service"));
  any(filter.eventTypes, matches("event_type"));
  any(filter.outcomes, equals("outcome"));
  any(filter.users, has("people"));
  any(filter.ips, has("things"));
  any(filter.applications, has("things"));
  any(filter.devices, has("things"));
  any(filter.correlations, equals("correlation"));
  any(filter.anyone, (value) => ({
    sql: "(contains(people, ?) OR contains(things, ?))",
    values: [wordFilter(value), wordFilter(value)],
  }));
  any(filter.ids, (value) => ({ sql: "(id = ? OR identity = ?)", values: [value, value.toLowerCase()] }));
  if (filter.fromNs !== undefined) add("time_ns >= ?", [filter.fromNs]);
  if (filter.toNs !== undefined) add("time_ns < ?", [filter.toNs]);
  return all(parts);
}

export function all(parts: readonly Condition[]): Condition {
  return {
    sql: parts.map(({ sql }) => sql).join(" AND ") || "true",
    values: parts.flatMap(({ values }) => [...values]),
  };
}

/** `*` matches anything; every other character is itself. */
function patternOf(text: string): string {
  return text
    .toLowerCase()
    .replace(/[\\%_]/g, (character) => `\\${character}`)
    .replaceAll("*", "%");
}

/** The fields that events can be counted by. */
const FIELDS: readonly string[] = COLUMNS.flatMap((column) =>
  "description" in column && column.name !== "length" ? [column.name] : [],
);

/** Other names under which people look for a field. */
const ALIASES: Readonly<Record<string, string>> = {
  user: "actor",
  type: "event_type",
  "event-type": "event_type",
  org: "organization",
  app: "application",
  correlation_id: "correlation",
  "correlation.id": "correlation",
  client_ip: "ip",
};

export function fieldOf(
  name: string,
  suggest: (name: string, known: readonly string[]) => string | undefined,
): string {
  const field = ALIASES[name.toLowerCase()] ?? name.toLowerCase();
  if (FIELDS.includes(field)) return field;
  const near = suggest(name, FIELDS);
  throw new UsageError(
    `There is no field "${name}"${near === undefined ? "" : `; did you mean "${near}"?`} The fields are ${FIELDS.join(", ")}.`,
  );
}
