import { z } from "zod";
import { connectionFields } from "../../core/http/config.ts";
import { compileTemplate } from "../../core/names.ts";
import { durationSchema, sizeSchema } from "../../core/schema.ts";
import { secretSchema } from "../../core/secret.ts";

const objectLockSchema = z
  .strictObject({
    mode: z.enum(["governance", "compliance"]).meta({
      description:
        "Who can delete an object before its time: some users with governance, no user with compliance.",
    }),
    retention: durationSchema("How long an object cannot be deleted or replaced, from its writing on.", {
      minMs: 1000,
    }),
  })
  .meta({ description: "Locks every object; the bucket must have Object Lock enabled." });

export const s3Schema = z.strictObject({
  bucket: z.string().min(1).meta({ description: "The bucket." }),
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
  region: z.string().min(1).default("us-east-1").meta({ description: "The bucket's region." }),
  endpoint: z
    .url({ protocol: /^https?$/ })
    .optional()
    .meta({ description: "The address of an S3-compatible service; by default Amazon's for the region." }),
  pathStyle: z.boolean().default(false).meta({
    description:
      "Writes the bucket into the path instead of the host name, as many compatible services want.",
  }),
  accessKeyId: secretSchema(
    "The access key's id; by default credentials come from the environment, the shared config, or the machine's role.",
  ).optional(),
  secretAccessKey: secretSchema("The access key's secret.").optional(),
  sessionToken: secretSchema("The session token of temporary credentials.").optional(),
  gzip: z.boolean().default(true).meta({ description: "Compresses objects with gzip." }),
  compression: z.enum(["gzip", "zstd", "none"]).optional().meta({
    description: "How objects are compressed; by default as `gzip` says.",
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
  objectLock: objectLockSchema.optional(),
  encryption: z.enum(["AES256", "aws:kms"]).optional().meta({
    description: "Server-side encryption; by default the bucket's own setting.",
  }),
  kmsKeyId: z.string().min(1).optional().meta({ description: "The KMS key for aws:kms encryption." }),
  storageClass: z.string().min(1).optional().meta({ description: "The objects' storage class." }),
  ...connectionFields,
});

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

export type S3Config = z.output<typeof s3Schema>;
