import { Problem } from "../http/problem.ts";
import { compareInstants, parseTimestamp } from "../timestamps.ts";
import { type FieldKind, isSearchable, kindOf } from "./known-fields.ts";

export type Predicate = (event: unknown) => boolean;
type Test = (value: unknown) => boolean;

const operators: Readonly<Record<FieldKind, readonly string[]>> = {
  string: ["eq", "ne", "contains", "startsWith", "endsWith", "in", "not_in"],
  numeric: ["eq", "ne", "lt", "gt", "lte", "gte", "in", "not_in"],
  timestamp: ["eq", "before", "after", "in", "not_in"],
  boolean: ["eq", "ne", "in", "not_in"],
};

/** Compiles a search_term; what the specification does not allow is a 400, too much of it a 500. */
export function compileSearchTerm(term: unknown, termsMax: number): Predicate {
  const budget = { terms: termsMax, depthMax: Math.max(2, Math.floor(termsMax / 10)) };
  if (!isObject(term) || !isLogical(term)) {
    throw new Problem(
      400,
      "search_term must hold exactly one logical operator, and or or, with a list of terms",
    );
  }
  return compileLogical(term, budget, 1);
}

interface Budget {
  terms: number;
  readonly depthMax: number;
}

function compileLogical(term: Record<string, unknown>, budget: Budget, depth: number): Predicate {
  if (depth > budget.depthMax) throw new Problem(500, "search_term is too complex");
  const [operator, terms] = Object.entries(term)[0]!;
  if (!Array.isArray(terms) || terms.length === 0)
    throw new Problem(400, `${operator} must hold a list of terms`);
  const seen = new Set<string>();
  const predicates = terms.map((inner) => {
    if (--budget.terms < 0) throw new Problem(500, "search_term is too complex");
    if (!isObject(inner)) throw new Problem(400, "a search term must be an object");
    if (isLogical(inner)) return compileLogical(inner, budget, depth + 1);
    const { field, test } = compileTerm(inner);
    if (seen.has(field)) throw new Problem(400, `the field ${field} repeats within one list`);
    seen.add(field);
    const path = field.split(".");
    return (event: unknown) => test(event, path);
  });
  return operator === "and"
    ? (event) => predicates.every((predicate) => predicate(event))
    : (event) => predicates.some((predicate) => predicate(event));
}

function isLogical(term: Record<string, unknown>): boolean {
  const keys = Object.keys(term);
  return keys.length === 1 && (keys[0] === "and" || keys[0] === "or") && Array.isArray(term[keys[0]]);
}

function compileTerm(term: Record<string, unknown>): {
  field: string;
  test: (event: unknown, path: readonly string[]) => boolean;
} {
  const { field, operator, value } = readTerm(term);
  if (!isSearchable(field)) throw new Problem(400, `the field ${field} cannot be searched`);
  const kind = kindOf(field) ?? kindOfValue(Array.isArray(value) ? value[0] : value);
  if (!operators[kind].includes(operator)) {
    throw new Problem(
      400,
      `operator ${operator} is not allowed for the ${kind} field ${field}: ${operators[kind].join(", ")}`,
    );
  }
  const negated = operator === "ne" || operator === "not_in";
  const matches = compileTest(field, kind, operator, value);
  // Negation speaks of the field as a whole: an event without it, or with other values only, matches.
  const test = (event: unknown, path: readonly string[]) =>
    valuesAt(event, path, 0).some(matches) !== negated;
  return { field, test };
}

function readTerm(term: Record<string, unknown>): { field: string; operator: string; value: unknown } {
  if ("field" in term && "value" in term) {
    const { field, operator, value } = term;
    if (typeof field !== "string" || field === "") throw new Problem(400, "field must be a name");
    if (operator !== undefined && typeof operator !== "string")
      throw new Problem(400, "operator must be a name");
    return { field, operator: operator ?? (Array.isArray(value) ? "in" : "eq"), value };
  }
  const entries = Object.entries(term);
  if (entries.length !== 1)
    throw new Problem(400, "a search term maps one field name to a value or a list of values");
  const [field, value] = entries[0]!;
  return { field, operator: Array.isArray(value) ? "in" : "eq", value };
}

function compileTest(field: string, kind: FieldKind, operator: string, value: unknown): Test {
  const many = operator === "in" || operator === "not_in";
  if (many !== Array.isArray(value)) {
    throw new Problem(
      400,
      many ? `operator ${operator} needs a list of values` : `operator ${operator} needs a single value`,
    );
  }
  if (!many) return single(field, kind, operator === "ne" ? "eq" : operator, value);
  const tests = (value as unknown[]).map((item) => single(field, kind, "eq", item));
  return (found) => tests.some((test) => test(found));
}

function single(field: string, kind: FieldKind, operator: string, value: unknown): Test {
  switch (kind) {
    case "string":
      return stringTest(field, operator, value);
    case "numeric":
      return numericTest(field, operator, value);
    case "timestamp":
      return timestampTest(field, operator, value);
    case "boolean":
      return booleanTest(field, value);
  }
}

/** Values are stored in lower case, so case does not tell them apart. All characters are literal. */
function stringTest(field: string, operator: string, value: unknown): Test {
  if (value === null) return (found) => found === null;
  if (typeof value === "object") throw wrongValue(field, "a string");
  const wanted = String(value).toLowerCase();
  const text = (found: unknown) =>
    found === null || typeof found === "object" ? null : String(found).toLowerCase();
  if (operator === "contains") return (found) => text(found)?.includes(wanted) ?? false;
  if (operator === "startsWith") return (found) => text(found)?.startsWith(wanted) ?? false;
  if (operator === "endsWith") return (found) => text(found)?.endsWith(wanted) ?? false;
  return (found) => text(found) === wanted;
}

function numericTest(field: string, operator: string, value: unknown): Test {
  const wanted = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  if (typeof wanted !== "number" || Number.isNaN(wanted)) throw wrongValue(field, "a number");
  const compare = (test: (number: number) => boolean) => (found: unknown) =>
    (typeof found === "number" || typeof found === "string") && found !== "" && test(Number(found));
  if (operator === "lt") return compare((number) => number < wanted);
  if (operator === "gt") return compare((number) => number > wanted);
  if (operator === "lte") return compare((number) => number <= wanted);
  if (operator === "gte") return compare((number) => number >= wanted);
  return compare((number) => number === wanted);
}

function timestampTest(field: string, operator: string, value: unknown): Test {
  const wanted = typeof value === "string" ? parseTimestamp(value) : null;
  if (wanted === null) throw wrongValue(field, "an RFC 3339 timestamp");
  return (found) => {
    const instant = typeof found === "string" ? parseTimestamp(found) : null;
    if (instant === null) return false;
    const order = compareInstants(instant, wanted);
    return operator === "before" ? order < 0 : operator === "after" ? order > 0 : order === 0;
  };
}

function booleanTest(field: string, value: unknown): Test {
  const wanted = value === "true" ? true : value === "false" ? false : value;
  if (typeof wanted !== "boolean") throw wrongValue(field, "true or false");
  return (found) => found === wanted;
}

function wrongValue(field: string, expected: string): Problem {
  return new Problem(400, `the value of ${field} must be ${expected}`);
}

function kindOfValue(value: unknown): FieldKind {
  if (typeof value === "number") return "numeric";
  return typeof value === "boolean" ? "boolean" : "string";
}

/** Every value that the dotted path reaches; lists on the way, and at its end, are gone through. */
function valuesAt(value: unknown, path: readonly string[], depth: number): unknown[] {
  if (Array.isArray(value)) return value.flatMap((item) => valuesAt(item, path, depth));
  if (depth === path.length) return value === undefined ? [] : [value];
  if (!isObject(value)) return [];
  return valuesAt(value[path[depth]!], path, depth + 1);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
