import { hash } from "node:crypto";
import type { TimePlace } from "./places.ts";
import type { Stream } from "./stream.ts";

/**
 * Why events of a stretch of time are missing, or may be.
 * expired: the service forgot it before it was read.
 * refused: the service refused it, or it was not asked for, until the service forgot it; `detail` says which.
 * unchecked: it was read, but not compared again before the service forgot it. Events that were indexed late may be missing.
 * unreadable: a single event that could not be read; `detail` says whether its bytes were kept.
 */
export type GapReason = "expired" | "refused" | "unchecked" | "unreadable";

/** How the detail of a gap begins that is about a single event without a name. */
export const ONE_EVENT = "one event";

/** The name of a single event in the detail of a gap. */
export function gapNameOf(id: string | undefined, identity: string): string {
  return `the event ${id ?? identity}`;
}

/** Whether the gap is about an event without a name. There may be several with the same detail: each is an event. */
export function isUnnamed({ detail }: Pick<NewGap, "detail">): boolean {
  return detail.startsWith(`${ONE_EVENT} `);
}

/** How the detail of a gap begins whose event the service lists and does not return. */
export const LISTED = "the service listed ";

/** How such a gap names an event without an id: nothing but its time says which event it is. */
export const WITHOUT_ID = "an event without an id";

export function isListed({ detail }: Pick<NewGap, "detail">): boolean {
  return detail.startsWith(LISTED);
}

/** Short, for passes: which gap an event with a name is. */
export function gapKey({ detail }: Pick<NewGap, "detail">): string {
  return hash("sha256", detail, "hex").slice(0, 16);
}

/** How the detail of a gap about an event goes on after its name, where the event is too large. */
export const TOO_LARGE = "is larger than the limit of a body";

/** Whether the gap is about this event, or about one that has no name. */
export function mayBeAbout(detail: string, name: string): boolean {
  if ([`${ONE_EVENT} `, `${LISTED}${WITHOUT_ID},`].some((begin) => detail.startsWith(begin))) return true;
  return [`${name},`, `${name} `].some((text) => detail.includes(text));
}

/** A stretch of one organization's time line, half-open. Remembered for as long as the state file lives. */
export interface Gap {
  /** null while the gap is open: it is a refused window then, not a row of its own. */
  readonly id: number | null;
  readonly account: string;
  /** Set for a portal's own events; organization is null then. */
  readonly provider: string | null;
  /** Lower case; null also for the key's own organization. */
  readonly organization: string | null;
  readonly services: readonly string[];
  readonly fromMs: number;
  readonly toMs: number;
  readonly reason: GapReason;
  readonly detail: string;
  /** How many events are missing, where that is known. */
  readonly events: number | null;
  /** When it was found, or last grew. */
  readonly foundMs: number | null;
  /** When its event came after it was found. Without a name: an event of its time, or a gap with a name; null: none did. */
  readonly cameMs: number | null;
  /** Open: refused now, or not asked for, but the service may still hold it. */
  readonly open: boolean;
  /** When a refused one is tried again; null: it is not, because nothing is asked for. */
  readonly nextMs: number | null;
}

/** A gap of every organization of the stream. */
export interface NewGap {
  readonly stream: Stream;
  readonly fromMs: number;
  readonly toMs: number;
  readonly reason: GapReason;
  readonly detail: string;
  readonly events: number | null;
}

/** A stretch that has been read as a whole: gaps of these reasons end inside it. */
export interface FilledStretch {
  readonly stream: Stream;
  readonly fromMs: number;
  readonly toMs: number;
  readonly reasons: readonly GapReason[];
  /** Only gaps with this detail end; absent: all. */
  readonly detail?: string | undefined;
}

/** The unreadable events that a reading has met. The ledger counts those without a name (journal/met-events.ts). */
export interface MetEvents {
  readonly stream: Stream;
  /** When it began, by the local clock. */
  readonly begunMs?: number | undefined;
  /** Those without a name: each is a gap, unless the ledger has it. */
  readonly gaps: readonly NewGap[];
  /** The keys of the gaps of those with a name. */
  readonly named: readonly string[];
  /** Set where the reading is whole: everything that the service shows of this stretch was met. */
  readonly whole?: TimePlace | undefined;
  /** The gaps that reach beyond that stretch and are readable there. */
  readonly readable?: readonly number[] | undefined;
}

export interface GapQuery {
  readonly account?: string | undefined;
  /** An organization's or a provider's id, whatever its case; "" is the key's own organization. */
  readonly owner?: string | undefined;
  /** Only gaps that overlap this half-open stretch. */
  readonly fromMs?: number | undefined;
  readonly toMs?: number | undefined;
  readonly reasons?: readonly GapReason[] | undefined;
  /** Only those that were found, or grew, at or after this time; leaves out open ones. */
  readonly foundSinceMs?: number | undefined;
  readonly limit?: number | undefined;
}

/** All gaps that a query finds, in sum. Open ones are counted apart: refused, and not asked for. */
export interface GapTotals {
  readonly gaps: number;
  readonly organizations: number;
  /** Summed over organizations. */
  readonly durationMs: number;
  /** Of the gaps whose number of events is known. */
  readonly events: number;
  readonly open: number;
  readonly openMs: number;
  /** Open too, but not asked for: the organization is not in the config any more, or the service no longer lists it. */
  readonly aside: number;
  readonly asideMs: number;
}
