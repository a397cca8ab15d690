import { z } from "zod";
import { durationSchema, sizeSchema } from "../core/schema.ts";
import { DAY_MS, durationMsOf } from "../core/time.ts";
import type { PollingSettings } from "./context.ts";
import type { PaceOptions } from "./limits/pace.ts";

/** How the service is read; one section for all accounts. */
export const pollingSchema = z
  .strictObject({
    interval: z
      .string()
      .default("30s")
      .refine((text) => durationMsOf(text) !== undefined || looksLikeCron(text), {
        error: "write a duration such as 30s, or a cron expression such as */5 * * * *",
      })
      .meta({
        description:
          "How often the newest events are asked for: a duration, or a cron expression, whose times are in UTC.",
      }),
    overlap: durationSchema(
      "How far each poll reads back, so that what is indexed a little late arrives with the next one.",
      {
        maxMs: DAY_MS,
      },
    ).prefault("5m"),
    window: durationSchema("How long the live window grows before it is closed and scheduled for sweeps.", {
      minMs: 60_000,
      maxMs: DAY_MS,
    }).prefault("1h"),
    sweeps: z
      .array(durationSchema("How long after a window's end.", { minMs: 1000 }))
      .min(1)
      .max(8)
      .prefault(["10m", "1h", "24h"])
      .refine((list) => list.every((ms, at) => at === 0 || ms > list[at - 1]!), {
        error: "list them in rising order",
      })
      .meta({
        description:
          "When a window that was read is compared with the service again; after the last one it is sealed.",
      }),
    lastSweep: durationSchema("How long before the service forgets a window it is compared once more.", {
      maxMs: 7 * DAY_MS,
    }).prefault("12h"),
    pageSize: z
      .int()
      .min(1)
      .max(10_000)
      .default(10_000)
      .meta({ description: "Events asked for in one request (the service gives at most 10,000)." }),
    pagesInFlight: z.int().min(1).max(64).default(3).meta({
      description:
        "Full pages of 10,000 events held in memory at once, over all accounts (smaller ones count less): this bounds the memory.",
    }),
    order: z
      .enum(["newest_first", "oldest_first"])
      .default("oldest_first")
      .meta({ description: "Which part of the history is read first." }),
    concurrency: z
      .int()
      .min(1)
      .max(256)
      .default(16)
      .meta({ description: "Requests under way at once for one key, at the most." }),
    requestsPerSecond: z.number().min(0).max(10_000).default(0).meta({
      description:
        "A ceiling of requests a second for one key; 0 means that only the service's own limit counts.",
    }),
    headerBytes: sizeSchema(
      "The largest header block of a request; more organizations than fit are read in several groups.",
      {
        min: 1024,
      },
    ).prefault("8KiB"),
    discovery: durationSchema("How often the list of organizations is asked for again.", {
      minMs: 1000,
    }).prefault("15m"),
  })
  .meta({ description: "How the service is read." });

/** Five or six fields; whether they name a time is checked with the whole config. */
export function looksLikeCron(text: string): boolean {
  return /^(\S+\s+){4,5}\S+$/.test(text.trim());
}

export type PollingConfig = z.output<typeof pollingSchema> & {
  /** Whether an archive closes days: then windows of history are cut at midnights (A1). */
  readonly archived?: boolean;
  /** The start of the oldest day that an archive waits for, while the journal is nearly full (A4). */
  readonly oldestOpenMs?: () => number | undefined;
  /** The state was restored at that time from a copy that was made before. */
  readonly restored?: PollingSettings["restored"];
  /** The names of all accounts of the config. */
  readonly accounts?: readonly string[];
};

/** The reading part of an account; the directory part describes its connection. */
export const accountReading = {
  organizations: z
    .union([z.literal("all"), z.array(z.string().min(1)).min(1)])
    .optional()
    .meta({
      description:
        "`all` asks the service for its organizations; or a list of ids. Without it the key's own organization is read.",
    }),
  include: z.array(z.string()).optional().meta({
    description: "With `all`: only organizations whose id or name matches one of these (* matches anything).",
  }),
  exclude: z.array(z.string()).optional().meta({
    description:
      "With `all`: leaves out organizations whose id or name matches one of these (* matches anything).",
  }),
  provider: z
    .string()
    .min(1)
    .optional()
    .meta({ description: "The provider's id: also reads the multi-tenant portal's own events." }),
  services: z
    .array(z.string().min(1))
    .min(1)
    .default(["all"])
    .meta({ description: "The services to read; `all`, and any beside it that `all` leaves out." }),
  since: durationSchema("How far back the first read goes.").prefault("90d"),
  retention: durationSchema("How long the service keeps events; lower it where the plan keeps less.").default(
    90 * DAY_MS,
  ),
} as const;

/** The parsed reading part of an account. */
export type AccountReading = z.output<z.ZodObject<typeof accountReading>>;

export function settingsOf(
  account: AccountReading & { readonly bodyMax: number },
  polling: PollingConfig,
): PollingSettings {
  return {
    pageSize: polling.pageSize,
    bodyBytesMax: account.bodyMax,
    overlapMs: polling.overlap,
    windowMs: polling.window,
    sweepsMs: polling.sweeps,
    lastSweepMs: polling.lastSweep,
    retentionMs: account.retention,
    sinceMs: account.since,
    services: account.services,
    order: polling.order,
    archived: polling.archived ?? false,
    ...(polling.oldestOpenMs && { oldestOpenMs: polling.oldestOpenMs }),
    restored: polling.restored,
    accounts: polling.accounts,
  };
}

export function paceOf(polling: PollingConfig): PaceOptions {
  return { concurrencyMax: polling.concurrency, requestsPerSecondMax: polling.requestsPerSecond };
}

/** When to poll again after a poll: an interval later, or at the next time of a cron expression (UTC). */
export function pollTimes(
  interval: string,
  nextRun: (expression: string, afterMs: number) => number | undefined,
): (polledMs: number) => number {
  const everyMs = durationMsOf(interval);
  if (everyMs !== undefined) return (polledMs) => polledMs + everyMs;
  return (polledMs) => nextRun(interval, polledMs) ?? polledMs + 60_000;
}
