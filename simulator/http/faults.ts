import type { Random } from "../random.ts";
import { Problem } from "./problem.ts";

/** A failure on demand: what goes wrong, and which requests it meets. */
export type Fault = FaultMatch & FaultEffect;

export interface FaultMatch {
  /** Absent: both APIs. */
  readonly api?: "insights" | "management";
  /** Only requests whose path begins so. */
  readonly path?: string;
  /** Only requests that name this organization. */
  readonly organization?: string;
  /** Only requests that carry search_after (true) or that do not (false). */
  readonly cursor?: boolean;
  /** Let so many matching requests pass first. */
  readonly skip?: number;
  /** Then strike so many times; absent means until it is cleared. */
  readonly times?: number;
  /** Strike with this probability. */
  readonly share?: number;
  /** Strike from this moment of the simulator's clock on, in milliseconds since 1970. */
  readonly fromMs?: number;
}

export type FaultEffect =
  | { readonly kind: "latency"; readonly ms: number }
  /** Any status; retryAfter is sent unchanged, seconds or a date. */
  | {
      readonly kind: "status";
      readonly status: number;
      readonly retryAfter?: string | number;
      readonly message?: string;
    }
  /** The key was reset: 401. */
  | { readonly kind: "unauthorized" }
  /** 400 for any search_after. */
  | { readonly kind: "refused_cursor" }
  /** The connection ends before the headers are whole. */
  | { readonly kind: "cut_headers" }
  /** The connection ends after so many bytes of the body, half of it by default. */
  | { readonly kind: "cut_body"; readonly afterBytes?: number }
  /** The body comes in small pieces. */
  | { readonly kind: "drip"; readonly bytesPerSecond: number }
  /** X-Result-Count is off by this much. */
  | { readonly kind: "wrong_count"; readonly by: number }
  /** X-Search_after is the one that the request carried (or that of the page before). */
  | { readonly kind: "same_token" }
  | { readonly kind: "missing_token" }
  | { readonly kind: "gzip"; readonly on: boolean }
  /** An event of an organization that was not asked for is added to the page. */
  | { readonly kind: "foreign_event" }
  /** The body is cut in the middle of an event, with headers that say it is whole. */
  | { readonly kind: "broken_json" }
  /** X-Limit claims this number; null leaves the header out. */
  | { readonly kind: "wrong_limit"; readonly value: number | null }
  /** No page has more events than this, whatever was asked; X-Limit says so, unless wrong_limit changes it. */
  | { readonly kind: "page_cap"; readonly events: number }
  /** The body begins with a byte order mark. */
  | { readonly kind: "byte_order_mark" }
  /** An element that is not a well-formed event is added to the page; NaN as a value when no text is given. */
  | { readonly kind: "malformed_event"; readonly text?: string };

/** Every kind; the type makes sure that none is forgotten. */
const kinds: Readonly<Record<FaultEffect["kind"], true>> = {
  latency: true,
  status: true,
  unauthorized: true,
  refused_cursor: true,
  cut_headers: true,
  cut_body: true,
  drip: true,
  wrong_count: true,
  same_token: true,
  missing_token: true,
  gzip: true,
  foreign_event: true,
  broken_json: true,
  wrong_limit: true,
  page_cap: true,
  byte_order_mark: true,
  malformed_event: true,
};

export interface FaultSubject {
  readonly api: "insights" | "management";
  readonly path: string;
  readonly organizations: readonly string[];
  readonly cursor: boolean;
  readonly nowMs: number;
}

export interface Faults {
  set(faults: readonly Fault[]): void;
  add(fault: Fault): void;
  clear(): void;
  list(): readonly (Fault & { readonly struck: number })[];
  /** The effects that meet this request; each counts as one strike. */
  strike(subject: FaultSubject): Effects;
}

/** At most one effect of a kind: the first fault that strikes. */
export interface Effects {
  get<K extends FaultEffect["kind"]>(kind: K): Extract<FaultEffect, { kind: K }> | undefined;
}

interface Armed {
  readonly fault: Fault;
  met: number;
  struck: number;
}

export function createFaults(random: Random, initial: readonly Fault[]): Faults {
  let armed: Armed[] = [];
  function arm(fault: Fault): Armed {
    if (kinds[fault.kind] === undefined) {
      throw new Problem(
        400,
        `There is no fault of kind ${JSON.stringify(fault.kind)}: ${Object.keys(kinds).join(", ")}`,
      );
    }
    return { fault, met: 0, struck: 0 };
  }
  armed = initial.map(arm);

  return {
    set(faults) {
      armed = faults.map(arm);
    },
    add(fault) {
      armed.push(arm(fault));
    },
    clear() {
      armed = [];
    },
    list: () => armed.map(({ fault, struck }) => ({ ...fault, struck })),
    strike(subject) {
      const effects = new Map<string, FaultEffect>();
      for (const entry of armed) {
        const { fault } = entry;
        if (effects.has(fault.kind) || !meets(fault, subject)) continue;
        entry.met++;
        if (entry.met <= (fault.skip ?? 0) || entry.struck >= (fault.times ?? Number.POSITIVE_INFINITY))
          continue;
        if (fault.share !== undefined && !random.chance(fault.share)) continue;
        entry.struck++;
        effects.set(fault.kind, fault);
      }
      return { get: (kind) => effects.get(kind) as never };
    },
  };
}

function meets(fault: Fault, subject: FaultSubject): boolean {
  if (fault.api !== undefined && fault.api !== subject.api) return false;
  if (fault.path !== undefined && !subject.path.startsWith(fault.path)) return false;
  if (fault.organization !== undefined && !subject.organizations.includes(fault.organization.toLowerCase()))
    return false;
  if (fault.cursor !== undefined && fault.cursor !== subject.cursor) return false;
  return fault.fromMs === undefined || subject.nowMs >= fault.fromMs;
}
