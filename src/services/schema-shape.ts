import type { z } from "zod";

/** The types of JSON that drift distinguishes. */
export type JsonType = "string" | "number" | "boolean" | "null" | "object" | "array" | "nothing";

/** A zod schema in a form that is quick to compare an event with. */
export interface Shape {
  /** Empty: any type. */
  readonly types: readonly JsonType[];
  /** The known fields of an object; undefined where any field is allowed. */
  readonly fields: ReadonlyMap<string, Shape> | undefined;
  /** The shape of the values of a record, for all keys. */
  readonly values: Shape | undefined;
  readonly elements: Shape | undefined;
}

const ANYTHING: Shape = { types: [], fields: undefined, values: undefined, elements: undefined };

/** Supports the kinds of schema that services use; any other kind counts as anything. */
export function shapeOf(schema: z.core.$ZodType): Shape {
  const { def } = schema._zod as { def: z.core.$ZodTypeDef };
  switch (def.type) {
    case "string":
    case "number":
    case "boolean":
      return { ...ANYTHING, types: [def.type] };
    case "optional":
      return also(inner(def), "nothing");
    case "nullable":
      return also(inner(def), "null");
    case "object":
      return objectShape(def as z.core.$ZodObjectDef);
    case "record":
      return { ...ANYTHING, types: ["object"], values: shapeOf((def as z.core.$ZodRecordDef).valueType) };
    case "array":
      return { ...ANYTHING, types: ["array"], elements: shapeOf((def as z.core.$ZodArrayDef).element) };
    case "union":
      return (def as z.core.$ZodUnionDef).options.map(shapeOf).reduce(either);
    default:
      return ANYTHING;
  }
}

function inner(def: z.core.$ZodTypeDef): Shape {
  return shapeOf((def as z.core.$ZodOptionalDef).innerType);
}

/** An object without any known field says nothing about its fields. */
function objectShape(def: z.core.$ZodObjectDef): Shape {
  const entries = Object.entries(def.shape);
  const fields = new Map(entries.map(([key, field]) => [key, shapeOf(field)]));
  return { ...ANYTHING, types: ["object"], fields: entries.length === 0 ? undefined : fields };
}

function also(shape: Shape, type: JsonType): Shape {
  return shape.types.length === 0 ? shape : { ...shape, types: [...shape.types, type] };
}

function either(a: Shape, b: Shape): Shape {
  if (a.types.length === 0 || b.types.length === 0) return ANYTHING;
  return {
    types: [...a.types, ...b.types],
    fields: a.fields ?? b.fields,
    values: a.values ?? b.values,
    elements: a.elements ?? b.elements,
  };
}
