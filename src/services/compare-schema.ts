import { isFields } from "../core/meaning.ts";
import type { JsonType, Shape } from "./schema-shape.ts";

const DEPTH_MAX = 6;
const KEYS_MAX = 300;
const ELEMENTS_MAX = 50;

/** Gets each difference between a value and its schema. */
export interface Differences {
  field(path: string): void;
  type(path: string, detail: string): void;
}

export function compare(value: unknown, shape: Shape, path: string, depth: number, found: Differences): void {
  const type = typeOf(value);
  if (shape.types.length > 0 && !shape.types.includes(type)) {
    const expected = shape.types.filter((one) => one !== "nothing").join(" or ");
    found.type(path, `${expected}, not ${type}`);
    return;
  }
  if (depth >= DEPTH_MAX) return;
  if (type === "array" && shape.elements) {
    const elements = value as readonly unknown[];
    for (let at = 0; at < elements.length && at < ELEMENTS_MAX; at++)
      compare(elements[at], shape.elements, `${path}[]`, depth + 1, found);
  }
  if (isFields(value)) compareFields(value, shape, path, depth, found);
}

function compareFields(
  value: Record<string, unknown>,
  shape: Shape,
  path: string,
  depth: number,
  found: Differences,
): void {
  const prefix = path === "" ? "" : `${path}.`;
  let keys = 0;
  for (const key in value) {
    if (++keys > KEYS_MAX) return;
    if (shape.values) compare(value[key], shape.values, `${prefix}*`, depth + 1, found);
    const field = shape.fields?.get(key);
    if (field) compare(value[key], field, prefix + key, depth + 1, found);
    else if (shape.fields) found.field(prefix + safeName(key));
  }
  if (!shape.fields) return;
  for (const [key, field] of shape.fields)
    if (value[key] === undefined && field.types.length > 0 && !field.types.includes("nothing"))
      found.type(prefix + key, `${field.types.join(" or ")}, not nothing`);
}

function typeOf(value: unknown): JsonType {
  if (value === null) return "null";
  if (value === undefined) return "nothing";
  if (Array.isArray(value)) return "array";
  const type = typeof value;
  return type === "string" || type === "number" || type === "boolean" ? type : "object";
}

const NAME = /^@?[A-Za-z][A-Za-z0-9_-]{0,79}$/;
const LOOKS_LIKE_DATA = /\d{5}|[0-9a-f]{16}|[0-9a-f]{8}-[0-9a-f]{4}-/i;

/** A name like those of fields, else "*": keys can be addresses, ids and other people's data. */
export function safeName(name: string): string {
  return NAME.test(name) && !LOOKS_LIKE_DATA.test(name) ? name : "*";
}
