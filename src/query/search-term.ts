import { QueryError } from "./errors.ts";
import { type FieldKind, isSearchable, kindOf } from "./known-fields.ts";

/** A checked search_term. A store may narrow its candidates by it. */
export type SearchTerm = LogicalTerm | FieldTerm;

export interface LogicalTerm {
  readonly logic: "and" | "or";
  readonly terms: readonly SearchTerm[];
}

export interface FieldTerm {
  readonly field: string;
  readonly kind: FieldKind;
  readonly operator: Operator;
  /** A list for `in` and `not_in`, else one value. */
  readonly value: unknown;
}

const OPERATORS = {
  string: ["eq", "ne", "contains", "startsWith", "endsWith", "in", "not_in"],
  numeric: ["eq", "ne", "lt", "gt", "lte", "gte", "in", "not_in"],
  timestamp: ["eq", "before", "after", "in", "not_in"],
  boolean: ["eq", "ne", "in", "not_in"],
} as const satisfies Readonly<Record<FieldKind, readonly string[]>>;
export type Operator = (typeof OPERATORS)[FieldKind][number];

interface Budget {
  terms: number;
  readonly depthMax: number;
}

/** Throws 400 for a term that the specification does not allow, and 500 for one that is too complex. */
export function parseSearchTerm(term: unknown, termsMax: number): SearchTerm {
  const budget = { terms: termsMax, depthMax: Math.max(2, Math.floor(termsMax / 10)) };
  if (!isObject(term) || !isLogical(term)) {
    throw new QueryError(
      400,
      "search_term must hold exactly one logical operator, and or or, with a list of terms",
    );
  }
  return parseLogical(term, budget, 1);
}

function parseLogical(term: Record<string, unknown>, budget: Budget, depth: number): LogicalTerm {
  if (depth > budget.depthMax) throw new QueryError(500, "search_term is too complex");
  const [logic, inner] = Object.entries(term)[0] as ["and" | "or", unknown[]];
  if (inner.length === 0) throw new QueryError(400, `${logic} must hold a list of terms`);
  const seen = new Set<string>();
  const terms = inner.map((one): SearchTerm => {
    if (--budget.terms < 0) throw new QueryError(500, "search_term is too complex");
    if (!isObject(one)) throw new QueryError(400, "a search term must be an object");
    if (isLogical(one)) return parseLogical(one, budget, depth + 1);
    const parsed = parseField(one);
    if (seen.has(parsed.field)) {
      throw new QueryError(400, `the field ${parsed.field} repeats within one list`);
    }
    seen.add(parsed.field);
    return parsed;
  });
  return { logic, terms };
}

function parseField(term: Record<string, unknown>): FieldTerm {
  const { field, operator, value } = readTerm(term);
  if (!isSearchable(field)) throw new QueryError(400, `the field ${field} cannot be searched`);
  const kind = kindOf(field) ?? kindOfValue(Array.isArray(value) ? value[0] : value);
  if (!isOperatorOf(kind, operator)) {
    const allowed = OPERATORS[kind].join(", ");
    throw new QueryError(
      400,
      `operator ${operator} is not allowed for the ${kind} field ${field}: ${allowed}`,
    );
  }
  const needsList = operator === "in" || operator === "not_in";
  if (needsList !== Array.isArray(value)) {
    const needed = needsList ? "a list of values" : "a single value";
    throw new QueryError(400, `operator ${operator} needs ${needed}`);
  }
  return { field, kind, operator, value };
}

function isOperatorOf(kind: FieldKind, operator: string): operator is Operator {
  return (OPERATORS[kind] as readonly string[]).includes(operator);
}

/** The operator form has `field` and `value`; the original form maps one field name to its value. */
function readTerm(term: Record<string, unknown>): { field: string; operator: string; value: unknown } {
  if ("field" in term && "value" in term) {
    const { field, operator, value } = term;
    if (typeof field !== "string" || field === "") throw new QueryError(400, "field must be a name");
    if (operator != null && typeof operator !== "string") {
      throw new QueryError(400, "operator must be a name");
    }
    return { field, operator: operator ?? defaultOperator(value), value };
  }
  const entries = Object.entries(term);
  if (entries.length !== 1) {
    throw new QueryError(400, "a search term maps one field name to a value or a list of values");
  }
  const [field, value] = entries[0]!;
  return { field, operator: defaultOperator(value), value };
}

function defaultOperator(value: unknown): Operator {
  return Array.isArray(value) ? "in" : "eq";
}

function kindOfValue(value: unknown): FieldKind {
  if (typeof value === "number") return "numeric";
  return typeof value === "boolean" ? "boolean" : "string";
}

function isLogical(term: Record<string, unknown>): boolean {
  const keys = Object.keys(term);
  return keys.length === 1 && (keys[0] === "and" || keys[0] === "or") && Array.isArray(term[keys[0]]);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
