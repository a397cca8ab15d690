import type { JournalEvent } from "./event.ts";
import { DAY_MS } from "./time.ts";

/**
 * The durable state of one archive, beside the journal in the state file. What an archive holds in the journal
 * is a set of pages and days, not a position (A5): a page's bytes stay until all its events are closed.
 * Every method that changes something is one transaction, on disk when it resolves.
 */
export interface ArchiveState {
  /** The log as it was last confirmed in the store; undefined before the first checkpoint. */
  head(): ArchiveHead | undefined;
  /** Log entries in order, with those that are proposed and not confirmed yet. */
  entries(): readonly Buffer[];
  /** Makes entries durable before anything about them is written to the store. */
  propose(entries: readonly ProposedEntry[]): Promise<void>;
  /** The signed checkpoint over the proposed entries, as it will be written; the same one after a crash. */
  proposal(): string | undefined;
  setProposal(checkpoint: string): Promise<void>;
  /** The store has the checkpoint: the plans behind its entries are done, and their pages are released. */
  confirm(head: ArchiveHead): Promise<void>;

  /** Notes what new pages hold, a bounded number in one call; true when there may be more. */
  noteArrivals(pagesMax: number): Promise<boolean>;
  /** Days that can be closed now, oldest first, at most about `eventsMax` events in all. */
  closable(query: ClosableQuery): Promise<readonly ClosableDay[]>;
  /** Makes plans durable; from then on later events of these organizations and days are additions (A7, A12). */
  plan(plans: readonly NewPlan[]): Promise<void>;
  plans(): readonly Plan[];
  /** The numbers of the pages that hold events of a plan, ascending. */
  pagesOf(plan: number): readonly number[];
  /** The page with this number, from the journal or from staging; its memory is not shared. */
  page(number: number): Promise<ArchivePage>;
  setBuilt(plan: number, built: object): Promise<void>;
  /** How many events wait, in how many pages, and the oldest day that is open. */
  backlog(): ArchiveBacklog;
  /** The oldest day with events that are not closed, as 2026-11-15; cheap. */
  oldestDay(): string | null;
  /** When the newest pass over a window began, by the service's clock; null before the first. */
  confirmedMs(): number | null;
  /** Moves pages that only archives hold to files of their own; true when there may be more (A4). */
  stage(limitPages: number): Promise<boolean>;

  /**
   * From now on such events are left out when their day is closed, unless a hold is in force then (A22, A23).
   * `reason` is the salted wording that the log names.
   */
  tombstone(scope: TombstoneScope, reason: string): Promise<void>;
  /** The events of an erasure that wait to be closed. */
  openEvents(scope: TombstoneScope): Promise<OpenEvents>;
  /** Names the erasures and holds that parts are built under; empty where nothing is left out. */
  erasureRules(): string;
  /** Deletes the dead letters that an erasure is about; those on hold and those of unfinished batches stay. */
  eraseDeadLetters(scope: TombstoneScope): Promise<ErasedLetters>;

  /** Small facts of the archive under a name: the last verification, holds, due orders. */
  fact(key: string): string | undefined;
  setFact(key: string, value: string | null): Promise<void>;
}

/** What an erasure is about. */
export interface TombstoneScope {
  readonly organization: string;
  /** An id or identity; null: all events of the organization. */
  readonly event: string | null;
  /** Days, both included; null: without a limit. */
  readonly from: string | null;
  readonly to: string | null;
}

export interface OpenEvents {
  readonly leftOut: number;
  /** On hold now, so they stay. */
  readonly onHold: number;
}

export interface ErasedLetters {
  readonly erased: number;
  /** On hold, so they stay. */
  readonly onHold: number;
  /** Their batch is not delivered yet, so they stay. */
  readonly waiting: number;
  /** The names of the holds that keep them. */
  readonly holds: readonly string[];
}

/** What a hold is about. */
export interface HoldScope {
  /** Empty: all. */
  readonly organizations: readonly string[];
  readonly from: string | null;
  readonly to: string | null;
}

/** Whether a hold reaches into these days of an organization. */
export function isOnHold(
  holds: readonly HoldScope[],
  organization: string,
  firstDay: string,
  lastDay: string,
): boolean {
  return holds.some(
    ({ organizations, from, to }) =>
      (organizations.length === 0 || organizations.includes(organization)) &&
      (from === null || lastDay >= from) &&
      (to === null || firstDay <= to),
  );
}

export interface ArchiveHead {
  readonly size: number;
  /** Hexadecimal. */
  readonly root: string;
  readonly checkpoint: string;
}

export interface ProposedEntry {
  readonly entry: Uint8Array;
  /** The plan that ends with this entry. */
  readonly plan?: number | undefined;
}

export interface ClosableQuery {
  readonly nowMs: number;
  readonly settleMs: number;
  readonly eventsMax: number;
  readonly daysMax: number;
}

export type PartKind = "day" | "late" | "undated";

/** The organizations of one UTC day (or, for additions, day of arrival) that can be closed together. */
export interface ClosableDay {
  readonly kind: PartKind;
  /** As 2026-11-15. */
  readonly day: string;
  readonly organizations: readonly Claim[];
}

/** The facts about one organization's day, before its events are counted. */
export interface Claim {
  /** An organization's id, `provider:` and a portal's id, or `account:` and a name. */
  readonly organization: string;
  readonly accounts: readonly string[];
  /** How many events the journal holds for it. */
  readonly events: number;
  /** The whole pass that the claim is about began then; null where none was made. */
  readonly askedMs: number | null;
  /** True where that pass gave exactly what the journal held. */
  readonly matches: boolean;
  /** True where a later pass compared identities. */
  readonly compared: boolean;
  /** The services that were asked for; null or absent where that was not the same for the whole day. */
  readonly services?: readonly string[] | null;
  /** The answer of a count query before the closing; null or absent where none was made. */
  readonly counted?: number | null;
  readonly missing: readonly { readonly fromMs: number; readonly toMs: number; readonly reason: string }[];
}

export interface NewPlan {
  readonly kind: PartKind;
  readonly day: string;
  readonly class: string;
  readonly organizations: readonly Claim[];
}

export interface Plan extends NewPlan {
  readonly id: number;
  /** Unique in its day and kind. */
  readonly part: string;
  /** The secrets of the part's organizations are derived from it; forgotten with the plan. */
  readonly seed: Buffer;
  /** Set once the part's files are complete on the local disk. */
  readonly built: object | undefined;
}

export interface ArchivePage {
  readonly count: number;
  event(index: number): JournalEvent;
  /** Further versions of events that are held already (A9). */
  readonly isChanged: boolean;
  /** The UTC day of an event's own time; empty where it has none that an archive could use (A6). */
  day(event: JournalEvent): string;
  /** The plan that an event of this organization goes into; undefined where it has none yet. */
  planOf(organization: string, event: JournalEvent): number | undefined;
  /** The salted wording of the erasure that keeps the event out; undefined where it is to be archived. */
  erasedBy(organization: string, event: JournalEvent): string | undefined;
  /** Gives the memory back. The page and its events are invalid from then on. */
  release(): void;
}

export interface ArchiveBacklog {
  readonly events: number;
  readonly pages: number;
  readonly stagedPages: number;
  readonly oldestDay: string | null;
}

/** Whether a person means this event: by its id, with a number as its digits, or by its identity. */
export function isNamed(
  { id, identity }: { readonly id: string | undefined; readonly identity: string },
  wanted: string,
): boolean {
  return id === wanted || identity === wanted.toLowerCase();
}

/** Whose an event is in the archive. */
export function archiveOwner(organization: string | null, provider: string | null, account: string): string {
  if (organization !== null && organization !== "") return organization;
  return provider === null ? `account:${account}` : `provider:${provider}`;
}

/** The UTC day as 2026-11-15. */
export function dayOf(timeMs: number): string {
  return new Date(timeMs).toISOString().slice(0, 10);
}

/** Times that no event of a kept day can have: they go to the undated part of the day of arrival (A6). */
export function isUndated(timestampMs: number | undefined, arrivedMs: number, retentionMs: number): boolean {
  if (timestampMs === undefined) return true;
  return timestampMs < arrivedMs - retentionMs - 7 * DAY_MS || timestampMs > arrivedMs + DAY_MS;
}
