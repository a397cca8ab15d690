import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { z } from "zod";

/** A Sigma processing pipeline, as far as ours use it. Anything more does not parse. */
const pipelineSchema = z.strictObject({
  name: z.string(),
  priority: z.number(),
  transformations: z.array(
    z.discriminatedUnion("type", [
      z.strictObject({
        id: z.string(),
        type: z.literal("field_name_mapping"),
        mapping: z.record(z.string(), z.string()),
        rule_conditions: z
          .array(z.strictObject({ type: z.literal("logsource"), product: z.string(), service: z.string() }))
          .length(1),
      }),
      z.strictObject({
        id: z.string(),
        type: z.literal("map_string"),
        mapping: z.record(z.string(), z.string()),
        field_name_conditions: z
          .array(z.strictObject({ type: z.literal("include_fields"), fields: z.array(z.string()).min(1) }))
          .length(1),
      }),
    ]),
  ),
});

export interface Pipeline {
  readonly fields: ReadonlyMap<string, string>;
  /** The name of a field in the output. Throws for a field that the pipeline does not map. */
  field(name: string): string;
  /** A value as the output has it. */
  value(name: string, value: unknown): unknown;
}

export function readPipeline(url: URL): Pipeline {
  const { transformations } = pipelineSchema.parse(parse(readFileSync(url, "utf8")));
  const fields = new Map<string, string>();
  const words = new Map<string, ReadonlyMap<string, string>>();
  for (const step of transformations) {
    if (step.type === "field_name_mapping")
      for (const [name, mapped] of Object.entries(step.mapping)) fields.set(name, mapped);
    else
      for (const name of step.field_name_conditions[0]!.fields)
        words.set(name, new Map(Object.entries(step.mapping)));
  }
  const worded = (name: string, value: unknown): unknown => {
    if (Array.isArray(value)) return value.map((one) => worded(name, one));
    return typeof value === "string" ? (words.get(name)?.get(value) ?? value) : value;
  };
  return {
    fields,
    field(name) {
      const mapped = fields.get(name);
      if (mapped === undefined) throw new Error(`no pipeline field for ${name}`);
      return mapped;
    },
    value: worded,
  };
}
