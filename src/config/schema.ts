import { resolve } from "node:path";
import { z } from "zod";
import { ARCHIVE_SUMMARY, archiveSchema } from "../archive/config.ts";
import type { FormatDefinition } from "../core/format.ts";
import { unsafeAddresses } from "../core/http/plain-http.ts";
import { realPlace } from "../core/link-target.ts";
import { durationSchema, sizeSchema } from "../core/schema.ts";
import { type Shard, shardSchema } from "../core/shard.ts";
import type { SinkDefinition } from "../core/sink.ts";
import { timestampMsOf } from "../core/time.ts";
import { routeSchema } from "../delivery/filter.ts";
import { accountConnection, checkConnection } from "../directory/account.ts";
import { systemSchema } from "../directory/system.ts";
import { formats } from "../formats/index.ts";
import { importSchema } from "../imports/config.ts";
import { accountReading, pollingSchema } from "../polling/config.ts";
import { searchSchema } from "../search/config.ts";
import { serverSchema } from "../server/config.ts";
import { sinks } from "../sinks/index.ts";
import { checkCluster, clusterSchema } from "./cluster-schema.ts";
import { checkPolling } from "./polling-checks.ts";

const accountSchema = z
  .strictObject({ ...accountConnection, ...accountReading })
  .superRefine(checkConnection, { when: isObject });

/** A format by its name, or with its options. */
function formatSchemaOf(allowed: readonly FormatDefinition[]) {
  return z
    .union([
      z.enum(allowed.map((format) => format.name) as [string, ...string[]]),
      ...allowed.map((format) =>
        (format.options as z.ZodObject).extend({
          type: z.literal(format.name).meta({ description: `The format ${format.name}.` }),
        }),
      ),
    ] as const)
    .meta({
      description:
        "How events are written: a format's name, or an object with `type` and the format's options.",
    });
}

const formatSchema = formatSchemaOf(formats);

/** The formats that a sink can write: Parquet needs one that writes files or objects. */
function formatsOf({ containers = [], containersOnly }: SinkDefinition): readonly FormatDefinition[] {
  return formats.filter(({ container }) =>
    container === undefined ? containersOnly !== true : containers.includes(container),
  );
}

/** The fields that all sinks share. */
export const sinkCommon = {
  name: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/, {
      error: "up to 64 letters, digits, dots, dashes and underscores",
    })
    .meta({ description: "The sink's name: its position in the journal is kept under it." }),
  format: formatSchema.optional(),
  only: routeSchema.optional().meta({ description: "Deliver only events that match all of these." }),
  except: routeSchema.optional().meta({ description: "Leave out events that match all of these." }),
  start: z
    .union([
      z.enum(["beginning", "now"]),
      z.string().refine((text) => timestampMsOf(text) !== undefined, {
        error: "write beginning, now, or a time such as 2026-01-31T00:00:00Z",
      }),
    ])
    .optional()
    .meta({
      description:
        "Where a sink begins that is new while the journal is not empty: beginning, now, or a time. beginning and a time reach back as far as the journal holds events, which it drops once all sinks have them; `tidemark backfill --sink NAME` reads older ones from the service.",
    }),
} as const;

function sinkSchema(definition: SinkDefinition) {
  return definition.config.safeExtend({
    ...sinkCommon,
    format: formatSchemaOf(formatsOf(definition)).optional(),
    type: z.literal(definition.type).meta({ description: definition.summary }),
  });
}

/** Configured among the sinks, but it takes days instead of batches, and always the events' own bytes. */
const archiveSink = archiveSchema.safeExtend({
  name: sinkCommon.name,
  type: z.literal("archive").meta({ description: ARCHIVE_SUMMARY }),
});

const journalSchema = z
  .strictObject({
    budget: sizeSchema(
      "Disk that the state file may use; when it is reached polling waits, nothing is dropped.",
      { min: 10_000_000 },
    ).prefault("10GB"),
  })
  .prefault({})
  .meta({ description: "The durable log between polling and delivery." });

const alarmsSchema = z
  .strictObject({
    sinkBehind: durationSchema(
      "A sink is behind, with an alarm, when its oldest undelivered event is older than this.",
      { minMs: 10_000 },
    ).prefault("5m"),
  })
  .prefault({})
  .meta({ description: "When alarms are raised." });

const logSchema = z
  .strictObject({
    level: z
      .enum(["debug", "info", "warn", "error"])
      .default("info")
      .meta({ description: "The least level that is logged." }),
  })
  .prefault({})
  .meta({ description: "Logging, to standard error." });

export const configSchema = z
  .strictObject({
    accounts: z
      .array(accountSchema)
      .min(1)
      .meta({ description: "Whom to read: a key, where it is valid, and what of it." }),
    state: z.string().min(1).default("./tidemark.db").meta({
      description:
        "The state file (SQLite). In a cluster the directory of the lanes' files. A relative path, here and elsewhere in the config, counts from the directory in which the program is started.",
    }),
    cluster: clusterSchema.optional(),
    shard: shardSchema.optional(),
    journal: journalSchema,
    polling: pollingSchema.prefault({}),
    sinks: z
      .array(
        z.discriminatedUnion("type", [...sinks.map(sinkSchema), archiveSink] as unknown as [
          z.ZodObject,
          ...z.ZodObject[],
        ]),
      )
      .min(1)
      .meta({ description: "Where events go." }),
    imports: z
      .array(importSchema)
      .default([])
      .meta({ description: "User imports that can be started by name or by a schedule." }),
    server: serverSchema
      .optional()
      .meta({ description: "The status page, the API and the metrics; left out: none is opened." }),
    search: searchSchema,
    drift: z.boolean().default(true).meta({
      description: "Count events that do not fit their service's schema. Costs a parse of each event.",
    }),
    system: systemSchema,
    alarms: alarmsSchema,
    log: logSchema,
  })
  .superRefine(
    (config, context) => {
      for (const path of ["accounts", "sinks", "imports"] as const) unique(path, config[path], context);
      oneSinkEach(config.sinks, context);
      importsOfAccounts(config, context);
      checkPolling(config, context);
      secretsInTheClear(config.sinks, context);
      for (const path of unsafeAddresses(config.server?.peers))
        context.addIssue({
          code: "custom",
          path: ["server", "peers", ...path],
          message: "use https, or set plainHttp: true beside it to send the token in the clear",
          input: config.server?.peers,
        });
      checkCluster(config, context);
    },
    { when: isObject },
  )
  .meta({ title: "Tidemark", description: "The configuration of Tidemark." });

/** The config as the program uses it: `auto` in `shard` is resolved. */
export type Config = Omit<z.output<typeof configSchema>, "shard"> & { readonly shard?: Shard | undefined };
export type AccountConfig = Config["accounts"][number];
/** A sink's common fields; its own are known to its definition alone. */
export interface SinkConfig {
  readonly name: string;
  readonly type: string;
  readonly format?: string | ({ readonly type: string } & Record<string, unknown>) | undefined;
  readonly only?: z.output<typeof routeSchema> | undefined;
  readonly except?: z.output<typeof routeSchema> | undefined;
  readonly start?: string | undefined;
}

/** Checks across fields run beside the checks of single fields, so that all problems are reported at once. */
function isObject(payload: { readonly value: unknown }): boolean {
  return typeof payload.value === "object" && payload.value !== null;
}

function unique(path: string, list: unknown, context: z.core.$RefinementCtx<unknown>): void {
  if (!Array.isArray(list)) return;
  const seen = new Set<unknown>();
  for (const [index, item] of list.entries()) {
    const name = (item as { name?: unknown } | null | undefined)?.name;
    if (name === undefined) continue;
    if (seen.has(name)) {
      context.addIssue({
        code: "custom",
        path: [path, index, "name"],
        message: `the name is used twice: give each of the ${path} its own`,
        input: name,
      });
    }
    seen.add(name);
  }
}

/** A directory belongs to one sink (R22): two would cut each other's files. */
function oneSinkEach(list: unknown, context: z.core.$RefinementCtx<unknown>): void {
  if (!Array.isArray(list)) return;
  const seen = new Set<string>();
  for (const [index, sink] of list.entries()) {
    const directory = (sink as { directory?: unknown } | null | undefined)?.directory;
    if (typeof directory !== "string") continue;
    const place = realPlace(directory);
    const byLink = place === resolve(directory) ? "" : ` (a symbolic link leads to ${place})`;
    if (seen.has(place))
      context.addIssue({
        code: "custom",
        path: ["sinks", index, "directory"],
        message: `another sink writes to this directory${byLink}: give each sink its own`,
        input: directory,
      });
    seen.add(place);
  }
}

/** Secrets go over plain http only where the config says so. */
function secretsInTheClear(list: unknown, context: z.core.$RefinementCtx<unknown>): void {
  if (!Array.isArray(list)) return;
  for (const [index, sink] of list.entries()) {
    for (const path of unsafeAddresses(sink)) {
      context.addIssue({
        code: "custom",
        path: ["sinks", index, ...path],
        message: "use https, or set plainHttp: true beside it to send this sink's secrets in the clear",
        input: sink,
      });
    }
  }
}

function importsOfAccounts(
  config: { readonly imports?: unknown; readonly accounts?: unknown },
  context: z.core.$RefinementCtx<unknown>,
): void {
  if (!Array.isArray(config.imports) || !Array.isArray(config.accounts)) return;
  const names = new Set(config.accounts.map((account: { name?: unknown } | null) => account?.name));
  for (const [index, item] of config.imports.entries()) {
    const account = (item as { account?: unknown } | null)?.account;
    if (account === undefined || names.has(account)) continue;
    context.addIssue({
      code: "custom",
      path: ["imports", index, "account"],
      message: "name one of the accounts",
      input: account,
    });
  }
}
