import { z } from "zod";
import { connectionFields } from "../../core/http/config.ts";
import { durationSchema } from "../../core/schema.ts";
import { secretSchema } from "../../core/secret.ts";
import { compressionSchema, objectFields } from "../objects/config.ts";

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

/** The connection to a bucket, and how its objects are kept. */
export const bucketFields = {
  bucket: z.string().min(1).meta({ description: "The bucket." }),
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
  objectLock: objectLockSchema.optional(),
  encryption: z.enum(["AES256", "aws:kms"]).optional().meta({
    description: "Server-side encryption; by default the bucket's own setting.",
  }),
  kmsKeyId: z.string().min(1).optional().meta({ description: "The KMS key for aws:kms encryption." }),
  storageClass: z.string().min(1).optional().meta({ description: "The objects' storage class." }),
  ...connectionFields,
};
export type BucketConfig = z.output<z.ZodObject<typeof bucketFields>>;

export const s3Schema = z.strictObject({
  ...bucketFields,
  ...objectFields,
  compress: compressionSchema.optional().meta({
    description:
      "How objects of lines are compressed; by default as `gzip` says. With zstd, raw pages are written as the journal has compressed them. Parquet always compresses its columns with zstd.",
  }),
  gzip: z.boolean().default(true).meta({ description: "Compresses objects of lines with gzip." }),
  compression: compressionSchema
    .optional()
    .meta({ description: "The same as `compress`, by its older name." }),
});
