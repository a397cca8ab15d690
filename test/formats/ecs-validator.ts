import { isIP } from "node:net";
import { reference } from "./reference.ts";

interface Field {
  readonly type: string;
  readonly array?: boolean;
  readonly allowed_values?: readonly string[];
  readonly expected_event_types?: Readonly<Record<string, readonly string[]>>;
}

type Fields = Record<string, unknown>;

/** Holds a document against ECS; the fields of `namespace` are the writer's own. Empty when it is valid. */
export function ecsValidator(namespace: string): (document: Fields) => string[] {
  const { fields, version } = reference<{ fields: Record<string, Field>; version: string }>("ecs-9.4.0.json");

  return (document) => {
    const faults: string[] = [];
    if (document["@timestamp"] === undefined) faults.push("@timestamp is required");
    if ((document.ecs as Fields | undefined)?.version !== version) faults.push("ecs.version is wrong");
    for (const [key, value] of Object.entries(document)) if (key !== namespace) walk(key, value, faults);
    expectedTypes((document.event ?? {}) as Fields, fields["event.category"]!, faults);
    return faults;
  };

  function walk(path: string, value: unknown, faults: string[]): void {
    const field = fields[path];
    const isLeaf = field && field.type !== "object" && field.type !== "nested";
    if (!isLeaf && typeof value === "object" && value !== null && !Array.isArray(value)) {
      if (Object.keys(value).length === 0) faults.push(`${path} is empty`);
      for (const [key, inner] of Object.entries(value)) walk(`${path}.${key}`, inner, faults);
      return;
    }
    if (field === undefined) {
      faults.push(`${path} is not a field of ECS`);
      return;
    }
    if (Array.isArray(value) !== (field.array ?? false)) {
      faults.push(`${path} is ${field.array ? "no" : "an"} array`);
      return;
    }
    for (const one of Array.isArray(value) ? value : [value]) leaf(path, one, field, faults);
  }
}

function leaf(path: string, value: unknown, field: Field, faults: string[]): void {
  if (!hasType(value, field.type)) faults.push(`${path} is no ${field.type}: ${JSON.stringify(value)}`);
  if (field.allowed_values && !field.allowed_values.includes(value as string))
    faults.push(`${path} may not be ${value}`);
}

function hasType(value: unknown, type: string): boolean {
  switch (type) {
    case "keyword":
    case "wildcard":
    case "match_only_text":
    case "constant_keyword":
      return typeof value === "string";
    case "date":
      return (
        typeof value === "string" &&
        /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$/.test(value) &&
        !Number.isNaN(Date.parse(value))
      );
    case "long":
      return Number.isSafeInteger(value);
    case "float":
      return typeof value === "number";
    case "boolean":
      return typeof value === "boolean";
    case "ip":
      return typeof value === "string" && isIP(value) !== 0 && !value.includes("%");
    case "geo_point":
      return isPoint(value as Fields);
    default:
      return false;
  }
}

function isPoint({ lat, lon }: Fields): boolean {
  return typeof lat === "number" && typeof lon === "number" && Math.abs(lat) <= 90 && Math.abs(lon) <= 180;
}

/** Each type must be expected by one of the categories at least. */
function expectedTypes(event: Fields, category: Field, faults: string[]): void {
  const expected = category.expected_event_types!;
  const categories = event.category as string[];
  for (const type of event.type as string[])
    if (!categories.some((category) => expected[category]?.includes(type)))
      faults.push(`event.type ${type} is not expected for ${categories}`);
}
