import { QueryError } from "./errors.ts";
import { compareInstants, parseTimestamp } from "./instant.ts";
import type { FieldTerm, Operator, SearchTerm } from "./search-term.ts";

/** Decides whether a parsed event matches. */
export type Predicate = (event: unknown) => boolean;
type Test = (value: unknown) => boolean;

export function predicateOf(term: SearchTerm): Predicate {
  if (!("logic" in term)) return fieldPredicate(term);
  const predicates = term.terms.map(predicateOf);
  return term.logic === "and"
    ? (event) => predicates.every((predicate) => predicate(event))
    : (event) => predicates.some((predicate) => predicate(event));
}

/** A negation is about the field as a whole: an event without it, or with other values only, matches. */
function fieldPredicate(term: FieldTerm): Predicate {
  const path = term.field.split(".");
  const isNegated = term.operator === "ne" || term.operator === "not_in";
  const matches = testOf(term);
  return (event) => valuesAt(event, path, 0).some(matches) !== isNegated;
}

function testOf({ field, kind, operator, value }: FieldTerm): Test {
  if (!Array.isArray(value)) return singleTest(field, kind, operator === "ne" ? "eq" : operator, value);
  const tests = value.map((item: unknown) => singleTest(field, kind, "eq", item));
  return (found) => tests.some((test) => test(found));
}

function singleTest(field: string, kind: FieldTerm["kind"], operator: Operator, value: unknown): Test {
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

/** The service stores values in lower case, so the comparison ignores case. Every character is literal. */
function stringTest(field: string, operator: Operator, value: unknown): Test {
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

function numericTest(field: string, operator: Operator, value: unknown): Test {
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

function timestampTest(field: string, operator: Operator, value: unknown): Test {
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

function wrongValue(field: string, expected: string): QueryError {
  return new QueryError(400, `the value of ${field} must be ${expected}`);
}

/** Every value that the dotted path reaches. Lists, on the way and at its end, are searched item by item. */
export function valuesAt(value: unknown, path: readonly string[], depth: number): unknown[] {
  if (Array.isArray(value)) return value.flatMap((item) => valuesAt(item, path, depth));
  if (depth === path.length) return value === undefined ? [] : [value];
  if (typeof value !== "object" || value === null) return [];
  const name = path[depth]!;
  return Object.hasOwn(value, name)
    ? valuesAt((value as Record<string, unknown>)[name], path, depth + 1)
    : [];
}
