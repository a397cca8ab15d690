import { z } from "zod";
import { durationSchema, tlsSchema } from "../core/schema.ts";
import { secretSchema } from "../core/secret.ts";
import { parseVerifier } from "./log/note.ts";
import { KEEP_PRESETS, keepOf } from "./retention.ts";

const keepSchema = (description: string) =>
  z
    .string()
    .refine((text) => keepOf(text) !== undefined, {
      error: `write years or days such as 7y or 400d, or one of ${Object.keys(KEEP_PRESETS).join(", ")}`,
    })
    .meta({ description });

const objectLockSchema = z
  .strictObject({
    mode: z.enum(["governance", "compliance"]).meta({
      description:
        "Who may delete a file before its time: with governance some users, with compliance no user.",
    }),
    days: z
      .int()
      .min(1)
      .max(36_500)
      .meta({ description: "How long files are locked; not longer than `keep`." }),
  })
  .meta({
    description: "Locks data files, manifests and checkpoints; the bucket must have Object Lock enabled.",
  });

const s3Schema = z
  .strictObject({
    bucket: z.string().min(1).meta({ description: "The bucket." }),
    prefix: z
      .string()
      .max(300)
      .regex(/^[^/].*\/$/, { error: "end it with a slash, and do not begin with one" })
      .optional()
      .meta({ description: "A folder in the bucket, ending with a slash; by default the bucket itself." }),
    region: z.string().min(1).default("us-east-1").meta({ description: "The bucket's region." }),
    endpoint: z
      .url({ protocol: /^https?$/ })
      .optional()
      .meta({ description: "The address of an S3-compatible service; by default Amazon's for the region." }),
    pathStyle: z
      .boolean()
      .default(false)
      .meta({ description: "Writes the bucket into the path instead of the host name." }),
    accessKeyId: secretSchema(
      "The access key's id; by default credentials come from the environment or the machine's role.",
    ).optional(),
    secretAccessKey: secretSchema("The access key's secret.").optional(),
    sessionToken: secretSchema("The session token of temporary credentials.").optional(),
    objectLock: objectLockSchema.optional(),
    timeout: durationSchema(
      "How long one request may take. One with a large body may take longer: a second more for each 10 kB.",
      { minMs: 1000 },
    ).prefault("5m"),
    tls: tlsSchema.optional(),
  })
  .meta({ description: "An S3 bucket, or a compatible service with conditional writes." });

const witnessSchema = z.strictObject({
  url: z
    .url({ protocol: /^https?$/ })
    .meta({ description: "The witness' address; `add-checkpoint` is appended to it." }),
  key: z
    .string()
    .refine(isVerifier, { error: "write the witness' public key as it prints it: name+0123abcd+BASE64" })
    .meta({ description: "The witness' public key, as `tidemark witness` prints it." }),
});

function isVerifier(text: string): boolean {
  try {
    return parseVerifier(text).type === 4;
  } catch {
    return false;
  }
}

const classSchema = z.strictObject({
  name: z
    .string()
    .regex(/^[a-z0-9][a-z0-9_-]{0,31}$/, { error: "up to 32 small letters, digits, dashes and underscores" })
    .meta({ description: "The name of the class; files hold one class each." }),
  keep: keepSchema("How long days of this class are kept."),
  organizations: z.array(z.string()).default([]).meta({ description: "Organizations of this class." }),
  accounts: z
    .array(z.string())
    .default([])
    .meta({ description: "Accounts all of whose organizations are of this class." }),
});

export const archiveSchema = z.strictObject({
  origin: z
    .string()
    .regex(/^[^\s+]{3,200}$/, {
      error: "a name such as example.com/audit-archive, without spaces and plus signs",
    })
    .meta({
      description:
        "The name of the archive's log, unique in the world: a domain of yours and a path. It never changes.",
    }),
  key: secretSchema("The signing key, made by `tidemark archive keys new`."),
  previousKey: secretSchema("The signing key before, for as long as a rotation takes.").optional(),
  store: z
    .union([
      z.strictObject({
        directory: z.string().min(1).meta({ description: "A directory of this archive alone." }),
      }),
      z.strictObject({ s3: s3Schema }),
    ])
    .meta({ description: "Where the archive is kept: `{ directory: PATH }` or `{ s3: { … } }`." }),
  settle: durationSchema(
    "How long a day rests before it is closed, from the later of its end and the pass about it.",
  ).prefault("48h"),
  counts: z.int().min(0).max(1_000_000).default(10_000).meta({
    description:
      "How many count queries a day the archive may send to the service: one for each organization and day that is closed, as a further check. Days beyond this number are closed without one.",
  }),
  keep: keepSchema("How long days are kept: 7y, 400d, or a preset.").default("7y"),
  classes: z
    .array(classSchema)
    .default([])
    .meta({ description: "Other retention for some organizations or accounts; the first that fits counts." }),
  witnesses: z
    .array(witnessSchema)
    .max(10)
    .default([])
    .meta({ description: "Servers elsewhere that cosign every checkpoint." }),
});

export type ArchiveConfig = z.output<typeof archiveSchema>;
export type S3StoreConfig = z.output<typeof s3Schema>;

export const ARCHIVE_SUMMARY = "Closes days into an archive of signed evidence, in a directory or in S3.";
export const ARCHIVE_PROMISE =
  "Exactly once: a day's part is planned durably before it is written, and its pages are released when a signed checkpoint covers it.";

/** The class of an organization, by its id or its account. */
export function classOf(
  config: Pick<ArchiveConfig, "classes">,
  organization: string,
  accounts: readonly string[],
): string {
  const found = config.classes.find(
    (one) =>
      one.organizations.some((id) => id.toLowerCase() === organization) ||
      accounts.some((account) => one.accounts.includes(account)),
  );
  return found?.name ?? "default";
}

/** `policy.json`: what is kept how long. */
export function policyText({ origin, keep, classes }: ArchiveConfig): string {
  const list = [{ name: "default", keep }, ...classes.map(({ name, keep: own }) => ({ name, keep: own }))];
  return `${JSON.stringify({ origin, classes: list.map((one) => ({ ...one, preset: KEEP_PRESETS[one.keep] ?? null })) }, null, 2)}\n`;
}
