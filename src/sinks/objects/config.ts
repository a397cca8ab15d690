import { z } from "zod";
import { compileTemplate } from "../../core/names.ts";
import { durationSchema, sizeSchema } from "../../core/schema.ts";

/** The settings that all sinks of objects share. */
export const objectFields = {
  prefix: z
    .string()
    .max(300)
    .regex(/^[^/]/, { error: "do not begin with a slash" })
    .default("tidemark/")
    .meta({ description: "What every key begins with; end it with a slash to make it a folder." }),
  partition: z
    .string()
    .superRefine((template, check) => {
      const problem = partitionProblem(template);
      if (problem !== undefined) check.addIssue({ code: "custom", message: problem });
    })
    .optional()
    .meta({
      description:
        "Folders for the objects, from {date}, {month}, {hour} (the event's own, UTC), {organization}, {service}, {event_type} and {account}: `dt={date}/service={service}`. A batch becomes one object for each. Without it, objects are in folders by sink and journal.",
    }),
  objectBytesMax: sizeSchema("The largest object, before compression.", { min: 1000, max: 512e6 }).prefault(
    "16MB",
  ),
  objectEventsMax: z.int().min(1).max(1_000_000).default(100_000).meta({
    description: "The most events in one object.",
  }),
  objectAgeMax: durationSchema("How long events wait for an object to fill before it is written unfilled.", {
    maxMs: 86_400_000,
  }).prefault("5m"),
};

export const compressionSchema = z.enum(["gzip", "zstd", "none"]).meta({
  description: "How objects of lines are compressed. Parquet always compresses its columns with zstd.",
});

export type Compression = z.output<typeof compressionSchema>;

/** Objects of other events must never get the same key, and every store must accept the name. */
function partitionProblem(template: string): string | undefined {
  try {
    compileTemplate(template);
  } catch (error) {
    return (error as Error).message;
  }
  const literal = template.replaceAll(/\{[^}]*\}/g, "x");
  if (!/^[a-zA-Z0-9_=.-]+(\/[a-zA-Z0-9_=.-]+)*$/.test(literal))
    return "use letters, digits, `=`, `-`, `_`, `.` and single slashes, without one at either end";
  return template.length > 200 ? "at most 200 characters" : undefined;
}
