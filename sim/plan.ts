import type { Fault } from "./faults.ts";

/** Where every life begins. */
export const START_MS = Date.UTC(2026, 0, 5);
export const MINUTE_MS = 60_000;
export const HOUR_MS = 3_600_000;
export const DAY_MS = 86_400_000;

/**
 * A whole life as data: it can be printed, shrunk, kept as a regression and replayed. Times are relative to
 * START_MS. The process starts at 0; at `lengthMs` the last fault is over.
 */
export interface Plan {
  readonly seed: number;
  readonly lengthMs: number;
  readonly tickMs: number;
  /** Ticks where nothing happens to the program; absent: see ticks.ts. */
  readonly idleTickMs?: number;
  /** Time passes while the program works, a millisecond with every few looks at the clock. */
  readonly workTakesTime?: boolean;
  readonly settings: Settings;
  readonly service: ServiceHabits;
  readonly organizations: readonly OrganizationPlan[];
  readonly portal?: PortalPlan;
  readonly faults: readonly Fault[];
}

/** The first configuration; `reconfigure` faults change it. */
export interface Settings {
  readonly sinceMs: number;
  readonly retentionMs: number;
  readonly intervalMs: number;
  readonly overlapMs: number;
  readonly windowMs: number;
  readonly sweepsMs: readonly number[];
  readonly lastSweepMs: number;
  readonly pageSize: number;
  readonly headerBytes: number;
  readonly bodyMax: number;
  readonly services: readonly string[];
  readonly discoveryMs: number;
  readonly order: "newest_first" | "oldest_first";
  /** `null`: all that the service lists. Otherwise indexes of organizations. */
  readonly only: readonly number[] | null;
  /** The config names the provider; absent: it does not. */
  readonly portal?: boolean;
  readonly sinks: readonly SinkPlan[];
}

export interface SinkPlan {
  readonly name: string;
  /** The folder stays when the sink gets another name. */
  readonly folder: string;
  readonly services?: readonly string[];
  readonly start?: "now";
  /** Its file names, as the config writes them. */
  readonly path: string;
  readonly rotateBytes: number;
}

/** How the service behaves all its life, within what its specification leaves open. */
export interface ServiceHabits {
  readonly endInclusive: boolean;
  /** The token of a page with no events: absent, or the one that was sent. */
  readonly emptyToken: "absent" | "echoed";
  readonly hasCount: boolean;
  /** A page is never larger than this, and X-Limit says so. */
  readonly cap: number;
  /** Headers that never come. */
  readonly without: readonly string[];
  /** X-Limit names this number whatever was asked and given; null: it tells the truth. */
  readonly claimedLimit: number | null;
  /** Times of a query are cut to whole seconds. */
  readonly wholeSeconds?: boolean;
  /** The newest event comes first, whatever was asked for. */
  readonly descending?: boolean;
  /** A token works for so long; null: without end. */
  readonly tokenMs: number | null;
  /** A token is bound to its query, page size included; another query with it skips or repeats. */
  readonly latencyMs: number;
}

export interface OrganizationPlan {
  readonly index: number;
  /** Relative; before it the service neither lists nor knows it. */
  readonly joinsMs: number;
  readonly leavesMs: number | null;
  readonly eventsPerDay: number;
  /** Shares of events, from 0 to 1. */
  readonly lateShare: number;
  readonly lateMs: number;
  readonly equalShare: number;
  readonly twinShare: number;
  readonly withoutIdShare: number;
  readonly futureShare: number;
  readonly untimedShare: number;
  /** Bursts of so many events at one moment. */
  readonly bursts: readonly { readonly atMs: number; readonly events: number; readonly spreadMs: number }[];
  /** Single events that are hard to take. */
  readonly odd: readonly { readonly atMs: number; readonly kind: OddKind }[];
}

/**
 * huge: larger than the limit of a body. foreign: it names another organization. nameless: it names none.
 * broken: no JSON (its value is NaN). deep: nested beyond any limit.
 */
export type OddKind = "huge" | "foreign" | "nameless" | "broken" | "deep";

/** A provider's portal: a source of events like an organization. */
export interface PortalPlan extends OrganizationPlan {
  /** Organizations that its own events may name; an event of its own may also name none. */
  readonly named: readonly number[];
  /** The share of the organizations' events that it shows too. */
  readonly sharedShare: number;
  /** It shows them with a member more. */
  readonly addsBytes: boolean;
}

/** The index of the portal, where organizations have theirs. */
export const PORTAL = 1000;
export const PROVIDER_ID = "5f0c8a1b2c3d4e5f60718293";

/** Everything that shows events. */
export function sourcesOf({ organizations, portal }: Plan): readonly OrganizationPlan[] {
  return portal === undefined ? organizations : [...organizations, portal];
}

/** Whether a config asks for the events of this source. */
export function isConfigured({ only, portal }: Settings, source: number): boolean {
  return source === PORTAL ? portal === true : only === null || only.includes(source);
}

/** The name of a source in the program's ledger. */
export function sourceId(index: number): string {
  return index === PORTAL ? PROVIDER_ID : organizationId(index);
}

export function organizationId(index: number): string {
  return (0x5f0c1a2b3c00 + index * 0x1111).toString(16).padStart(24, "a");
}
