import { readFileSync } from "node:fs";
import type { AccountConfig } from "../config/schema.ts";
import type { Alarms } from "../core/alarms.ts";
import type { PageMemory } from "../core/buffer-pool.ts";
import type { Clock } from "../core/clock.ts";
import { explain } from "../core/errors.ts";
import type { Journal } from "../core/journal.ts";
import type { Log } from "../core/log.ts";
import type { Metrics } from "../core/metrics.ts";
import type { PageGate } from "../core/page-gate.ts";
import type { Roster } from "../core/roster.ts";
import { ownsOrganization, type Shard } from "../core/shard.ts";
import type { Traces } from "../core/traces.ts";
import { patternOf } from "../delivery/filter.ts";
import { connectionOf } from "../directory/account.ts";
import { DirectoryError, StalledError } from "../directory/errors.ts";
import { type InsightsClient, openInsights } from "../directory/insights.ts";
import { type ManagementClient, openManagement } from "../directory/management.ts";
import type { RequestDispatcher } from "../directory/transport.ts";
import { nextRun } from "../imports/schedule.ts";
import type { PollingConfig } from "../polling/config.ts";
import type { PollContext } from "../polling/context.ts";
import { openPoller } from "../polling/open.ts";
import type { Poller } from "../polling/poller.ts";
import type { Preparer } from "../polling/prepare/preparer.ts";
import type { Source, SourceFault } from "../polling/read/source.ts";
import type { LaneParts } from "./cluster/lane-parts.ts";

export interface AccountParts {
  readonly journal: Journal;
  readonly roster: Roster;
  readonly clock: Clock;
  readonly alarms: Alarms;
  readonly metrics: Metrics;
  readonly log: Log;
  readonly gate: PageGate;
  readonly preparer: Preparer;
  readonly memory: PageMemory;
  readonly traces: Traces | undefined;
  readonly polling: PollingConfig;
  /** Only the organizations of this shard are read. */
  readonly shard?: Shard | undefined;
  readonly keepUnattributed: PollContext["keepUnattributed"];
  /** A lane shares the pace and the list of organizations with the other lanes of its machine. */
  readonly lane?: LaneParts | undefined;
  /** Takes the requests instead of the network. */
  readonly dispatcher?: RequestDispatcher | undefined;
}

export interface Account {
  readonly name: string;
  readonly config: AccountConfig;
  readonly insights: InsightsClient;
  readonly management: ManagementClient;
  readonly poller: Poller;
  close(): Promise<void>;
}

/** The clients of one account, and the poller over them. */
export function openAccount(config: AccountConfig, parts: AccountParts): Account {
  const { polling, clock, traces, shard, lane, ...rest } = parts;
  const clients = openClients(config, clock, polling.concurrency, parts);
  const provider = ownsOrganization(shard, null) ? config.provider : undefined;
  const poller = openPoller({ ...config, provider }, polling, {
    ...rest,
    clock,
    source: sourceOf(clients.insights, config.name, traces),
    ...(lane === undefined ? {} : { pace: lane.paceOf(config.name) }),
    discover: async (signal) => {
      const look = () => discover(config, clients.management, signal);
      return ownOf(shard, await (lane === undefined ? look() : lane.discover(config.name, look)));
    },
    nextRun: (expression, afterMs) => nextRun(expression, "UTC", afterMs)?.ms,
  });
  return {
    name: config.name,
    config,
    poller,
    ...clients,
    async close() {
      poller.stop();
      await clients.close();
    },
  };
}

export function openClients(
  config: AccountConfig,
  clock: Clock,
  connectionsMax: number,
  { dispatcher, memory }: Partial<Pick<AccountParts, "dispatcher" | "memory">> = {},
) {
  const connection = connectionOf(config);
  const ca = config.ca === undefined ? undefined : readFileSync(config.ca, "utf8");
  const insights = openInsights(connection, { clock, ca, connectionsMax, dispatcher, memory });
  const management = openManagement(connection, { clock, ca, dispatcher });
  return {
    insights,
    management,
    async close() {
      await Promise.all([insights.close(), management.close()]);
    },
  };
}

function sourceOf(insights: InsightsClient, account: string, traces: Traces | undefined): Source {
  return {
    events:
      traces === undefined
        ? (query, scope, options) => insights.events(query, scope, options)
        : traces.source(account, insights),
    headerBytes: (scope) => insights.headerBytes(scope),
    fault: sourceFaultOf,
  };
}

export function sourceFaultOf(error: unknown): SourceFault {
  if (!(error instanceof DirectoryError)) return { kind: "bug", message: explain(error) };
  const kind = error.kind === "not_found" ? "unknown_organization" : error.kind;
  const { retryAfterMs, dateMs } = error;
  return { kind, message: explain(error), retryAfterMs, dateMs, isStalled: error instanceof StalledError };
}

/**
 * The shard's part of what discovery found. Everything that polling plans, reads and counts begins here, so an
 * event of another shard's organization is foreign wherever it appears (R7).
 */
export function ownOf<Found extends { readonly id: string }>(
  shard: Shard | undefined,
  found: readonly Found[] | null,
): readonly Found[] | null {
  if (found === null) return ownsOrganization(shard, null) ? null : [];
  return found.filter(({ id }) => ownsOrganization(shard, id));
}

async function discover(config: AccountConfig, management: ManagementClient, signal: AbortSignal) {
  if (config.organizations === undefined) return null;
  if (config.organizations !== "all") return config.organizations.map((id) => ({ id, name: id }));
  const include = config.include?.map(patternOf);
  const exclude = config.exclude?.map(patternOf);
  const matches = (patterns: readonly RegExp[], id: string, name: string) =>
    patterns.some((pattern) => pattern.test(id) || pattern.test(name));
  const found: { id: string; name: string; isLeftOut: boolean }[] = [];
  for await (const organization of management.organizations(signal)) {
    const id = organization._id;
    const name = organization.displayName ?? id;
    const isIncluded = include === undefined || matches(include, id, name);
    const isExcluded = exclude !== undefined && matches(exclude, id, name);
    found.push({ id, name, isLeftOut: !isIncluded || isExcluded });
  }
  return found;
}
