import type { Settings } from "./plan.ts";

/** Things that go wrong in a life, as data. Times are relative to the life's start. */
export type Fault =
  /** kill -9 or a power cut after `hops` awaits; the process starts again `downMs` later. */
  | {
      readonly kind: "kill" | "power";
      readonly fromMs: number;
      readonly hops: number;
      readonly downMs: number;
    }
  /** An orderly end, perhaps for weeks. */
  | { readonly kind: "stop"; readonly fromMs: number; readonly downMs: number }
  /** An orderly end, another configuration, and a start. */
  | {
      readonly kind: "reconfigure";
      readonly fromMs: number;
      readonly downMs: number;
      readonly change: ConfigChange;
    }
  /** A backup is made at `backupMs`, and put in place of the state at `fromMs`. */
  | { readonly kind: "restore"; readonly backupMs: number; readonly fromMs: number; readonly downMs: number }
  /** The computer's clock is wrong by so much, between the two times. */
  | { readonly kind: "clock"; readonly fromMs: number; readonly toMs: number; readonly skewMs: number }
  | {
      readonly kind: "disk";
      readonly fromMs: number;
      readonly toMs: number;
      /** The disk of this sink, by its place in the first config; or the state file's. */
      readonly target: number | "state";
      readonly error: DiskError;
    }
  | { readonly kind: "service"; readonly fromMs: number; readonly toMs: number; readonly effect: Effect };

/** hang: calls never return. slow: each call takes seconds. Otherwise every change fails with this code. */
export type DiskError = "ENOSPC" | "EIO" | "EACCES" | "hang" | "slow";

export type ConfigChange =
  | { readonly type: "since"; readonly sinceMs: number }
  | { readonly type: "page_size"; readonly pageSize: number }
  /** Indexes of organizations; null: all. */
  | { readonly type: "organizations"; readonly only: readonly number[] | null }
  | { readonly type: "portal"; readonly isRead: boolean }
  | { readonly type: "add_sink"; readonly name: string }
  | { readonly type: "rename_sink"; readonly index: number; readonly name: string }
  | { readonly type: "services"; readonly services: readonly string[] }
  | { readonly type: "sweeps"; readonly sweepsMs: readonly number[] }
  /** null: the sink gets the events of every service. */
  | { readonly type: "filter"; readonly index: number; readonly services: readonly string[] | null }
  | { readonly type: "windows"; readonly windowMs: number; readonly order: Settings["order"] };

/** An effect of the service on requests; on a `share` of them where there is one. */
export type Effect =
  | { readonly type: "throttle"; readonly share: number; readonly retryAfterS: number | null }
  | { readonly type: "unavailable"; readonly share: number; readonly status: 500 | 502 | 503 }
  | { readonly type: "refuse" }
  | { readonly type: "unauthorized" }
  | { readonly type: "tenant"; readonly organization: number; readonly status: 402 | 403 | 404 | 500 }
  | { readonly type: "history"; readonly organization: number; readonly keptMs: number }
  | { readonly type: "cut"; readonly share: number; readonly where: "head" | "body" }
  | { readonly type: "hang"; readonly share: number }
  | { readonly type: "cursors" }
  | { readonly type: "bad_request" }
  | { readonly type: "wrong_count"; readonly share: number }
  | { readonly type: "wrong_token"; readonly share: number }
  /** Whole events: half a page, with a count that fits, looks like the last page. */
  | { readonly type: "short_page"; readonly share: number }
  | { readonly type: "nonsense"; readonly share: number }
  | { readonly type: "date"; readonly skewMs: number }
  /** Whole events come from a replica that is so much behind the one that answers with identities alone. */
  | { readonly type: "replica"; readonly lagMs: number }
  /** 200: the list is empty. */
  | { readonly type: "list"; readonly status: 200 | 403 | 429 | 500 };

/** How long after its end a fault may still be felt: the longest wait that the program allows itself. */
export function recoveryMs(fault: Fault): number {
  const minute = 60_000;
  switch (fault.kind) {
    case "service":
      switch (fault.effect.type) {
        case "tenant":
          return fault.effect.status === 402 ? 25 * 60 * minute : 75 * minute;
        // A live window is closed first, and swept then.
        case "short_page":
          return 26 * 60 * minute;
        case "history":
          return 25 * 60 * minute;
        case "list":
          // Organizations that were missing in the list come back with the next one.
          return fault.effect.status === 200 ? 150 * minute : 30 * minute;
        default:
          return 30 * minute;
      }
    case "disk":
      return 30 * minute;
    default:
      return 15 * minute;
  }
}
