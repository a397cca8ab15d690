import { z } from "zod";
import { connectionFields } from "../../core/http/config.ts";
import { compressionSchema, objectFields } from "../objects/config.ts";
import { googleFields } from "./auth.ts";

export const gcsSchema = z.strictObject({
  bucket: z
    .string()
    .regex(/^[a-z0-9][a-z0-9._-]{1,221}[a-z0-9]$/, { error: "the bucket's name, without gs://" })
    .meta({ description: "The bucket." }),
  endpoint: z
    .url({ protocol: /^https?$/ })
    .default("https://storage.googleapis.com")
    .meta({ description: "The service's address; another one for private access." }),
  storageClass: z.enum(["STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE"]).optional().meta({
    description: "The objects' storage class; by default the bucket's.",
  }),
  compression: compressionSchema.default("gzip"),
  ...googleFields,
  ...objectFields,
  ...connectionFields,
});

export type GcsConfig = z.output<typeof gcsSchema>;
