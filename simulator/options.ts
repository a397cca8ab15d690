import type { Fault } from "./http/faults.ts";

/** Options of the simulated service. The defaults are a small, lively provider. */
export interface SimulatorOptions {
  /** 0, the default, lets the system choose. */
  readonly port?: number;
  readonly host?: string;
  /** The same seed, options and clock start give the same bytes. */
  readonly seed?: number;
  /** How many organizations, or which ones. Weights of a count follow Zipf: the first is by far the largest. */
  readonly organizations?: number | readonly OrganizationOption[];
  /** Events of history over all organizations. */
  readonly events?: number;
  /** Days of history before the clock's start. */
  readonly days?: number;
  /** Approximate mean size of a generated event in bytes. */
  readonly eventBytes?: number;
  /** New events per second of the simulator's clock; 0, the default, is a quiet service. */
  readonly liveEventsPerSecond?: number;
  /** How long after its timestamp an event becomes visible; "none" makes every event visible at once. */
  readonly lateness?: Partial<Lateness> | "none";
  /** Share of live events that carry a timestamp of up to ten minutes ahead of the clock. */
  readonly futureShare?: number;
  readonly clock?: ClockOptions;
  /** The administrator's key; a fixed one by default. */
  readonly apiKey?: string;
  /** Further keys, beside the administrator's and the command runner's. */
  readonly keys?: readonly KeyOption[];
  /** Life of an OAuth token on the simulator's clock. */
  readonly tokenSeconds?: number;
  /** Serve /events/count, /events/interval and /events/distinct. Off answers 404, as the specification knows none. */
  readonly optionalEndpoints?: boolean;
  /** Compress where the client accepts gzip. */
  readonly gzip?: boolean;
  readonly faults?: readonly Fault[];
  /** SQLite file of the world's state; in memory when absent. */
  readonly file?: string;
  readonly pageLimit?: { readonly default?: number; readonly maximum?: number };
  /** Whether an event exactly at end_time belongs to the answer; the specification does not say. */
  readonly endTimeInclusive?: boolean;
  readonly retentionDays?: number;
  /** Above this many requests per second (real time) the Insights API answers 429. */
  readonly throttle?: { readonly requestsPerSecond: number; readonly retryAfterSeconds?: number };
  /** Above this many bytes of request headers the answer is 431. */
  readonly headerBytesMax?: number;
  /** Above this many search terms, or a tenth as many levels, the answer is 500. */
  readonly searchTermsMax?: number;
  /**
   * Service names that a query may ask for beside those of the specification; "exporter" means those
   * that the vendor's own exporter sends.
   */
  readonly furtherServices?: readonly string[] | "exporter";
  readonly imports?: Partial<ImportOptions>;
  /** Routes of the management API that answer 403 when x-org-id is sent. */
  readonly routesWithoutOrgId?: readonly string[];
}

export interface OrganizationOption {
  /** 24 hexadecimal digits; made from the seed when absent. */
  readonly id?: string;
  readonly name?: string;
  /** Share of the traffic relative to the others. */
  readonly weight?: number;
  /** Insights answers every query that includes this organization with this status (402, 403, …). */
  readonly refuse?: number;
}

export interface KeyOption {
  readonly key: string;
  readonly role?: Role;
  /** Absent or "all": a multi-tenant administrator of every organization. One id: single-tenant. */
  readonly organizations?: "all" | readonly string[];
  /** A key of an explicit list of organizations is multi-tenant when this says so or when there are several. */
  readonly multiTenant?: boolean;
  /** Management scopes of the key; absent means every scope. */
  readonly scopes?: readonly string[];
}

export type Role = "administrator" | "read_only" | "command_runner";

export interface ClockOptions {
  /** The clock's time at start: RFC 3339 or milliseconds since 1970; the real time when absent. */
  readonly start?: string | number;
  /** Seconds of the simulator per real second; 0 stops it. */
  readonly speed?: number;
  /** Added to the clock, as a service whose clock is wrong. */
  readonly skewMs?: number;
}

/** A mixture: nearly all events after about `typicalMs`, a share within `lateMs`, a small share within `tailMs`. */
export interface Lateness {
  readonly typicalMs: number;
  readonly lateShare: number;
  readonly lateMs: number;
  readonly tailShare: number;
  readonly tailMs: number;
}

export interface ImportOptions {
  /** Users that a job handles per second of the simulator's clock. */
  readonly usersPerSecond: number;
  readonly failureShare: number;
  /** Users that a source offers. */
  readonly sourceUsers: number;
  /** State of users that an import creates, when nothing else decides. */
  readonly state: "STAGED" | "ACTIVATED";
  /** The answer of GET import/users: the specification's array, or the object seen in the field. */
  readonly usersShape: "array" | "object";
  /** The preview passes `query` to the source, as the published interface does; the specification does not name it. */
  readonly previewQuery: boolean;
  /** Indexing delay of the events that changes through the management API produce. */
  readonly indexingDelayMs: number;
  /** How many of a Workday integration's workers the service refuses to import: their e-mail address is none. */
  readonly badWorkers: number;
  /** Workers as the specification names their fields, or every second one with firstName and attributes as an object. */
  readonly workerShapes: "specified" | "mixed";
  /** Whether a refused Workday import names the entries that are at fault. */
  readonly refusals: "named" | "unnamed";
  /** Serve GET /systemusers, as the published interface does; the specification does not show it. */
  readonly listUsers: boolean;
}

/** Names that the vendor's exporter sends although the specification does not list them. */
const exporterServices: readonly string[] = ["alerts", "saas_app_management", "workflows"];

export type Settings = ReturnType<typeof settle>;

const latenessDefault: Lateness = {
  typicalMs: 2_000,
  lateShare: 0.02,
  lateMs: 5 * 60_000,
  tailShare: 0.001,
  tailMs: 6 * 3_600_000,
};

const importsDefault: ImportOptions = {
  usersPerSecond: 20,
  failureShare: 0.04,
  sourceUsers: 25,
  state: "STAGED",
  usersShape: "array",
  previewQuery: false,
  indexingDelayMs: 1_000,
  badWorkers: 0,
  workerShapes: "mixed",
  refusals: "named",
  listUsers: false,
};

/** Every option with its default. */
export function settle(options: SimulatorOptions) {
  return {
    port: options.port ?? 0,
    host: options.host ?? "127.0.0.1",
    seed: options.seed ?? 1,
    organizations: options.organizations ?? 5,
    events: options.events ?? 10_000,
    days: options.days ?? 30,
    eventBytes: options.eventBytes ?? 1024,
    liveEventsPerSecond: options.liveEventsPerSecond ?? 0,
    lateness: options.lateness === "none" ? null : { ...latenessDefault, ...options.lateness },
    futureShare: options.futureShare ?? 0.0002,
    startMs: startMs(options.clock?.start),
    speed: options.clock?.speed ?? 1,
    skewMs: options.clock?.skewMs ?? 0,
    apiKey: options.apiKey ?? "5da2f0c1b8e94f6aa7d3c2b1e0f98765simulate",
    keys: options.keys ?? [],
    tokenSeconds: options.tokenSeconds ?? 3600,
    optionalEndpoints: options.optionalEndpoints ?? false,
    gzip: options.gzip ?? true,
    faults: options.faults ?? [],
    file: options.file ?? null,
    pageLimitDefault: options.pageLimit?.default ?? 1000,
    pageLimitMaximum: options.pageLimit?.maximum ?? 10_000,
    endTimeInclusive: options.endTimeInclusive ?? true,
    retentionMs: (options.retentionDays ?? 90) * 86_400_000,
    throttle: options.throttle ?? null,
    headerBytesMax: options.headerBytesMax ?? null,
    searchTermsMax: options.searchTermsMax ?? 1000,
    furtherServices:
      options.furtherServices === "exporter" ? exporterServices : (options.furtherServices ?? []),
    imports: { ...importsDefault, ...options.imports },
    routesWithoutOrgId: options.routesWithoutOrgId ?? ["/organizations"],
  };
}

function startMs(start: string | number | undefined): number {
  if (start === undefined) return Date.now();
  const ms = typeof start === "number" ? start : Date.parse(start);
  if (!Number.isFinite(ms)) throw new Error(`The clock cannot start at "${start}": give an RFC 3339 time.`);
  return ms;
}
