import type { JournalEvent } from "./event.ts";
import type { Gap, GapQuery, GapTotals } from "./gap.ts";
import type { PageLease } from "./page-lease.ts";
import type { EventsInPlace, PageSlice } from "./page-slice.ts";
import type { TimePlace } from "./places.ts";
import type { Position } from "./position.ts";
import type { PreparedPage } from "./prepare-page.ts";
import type { SinkState } from "./sink-state.ts";
import type { Stream, Window, WindowChange, WindowState } from "./window.ts";

/**
 * The durable log between polling and delivery, and the ledger of windows that belongs to it. Every
 * promise that resolves means: on disk.
 */
export interface Journal {
  /** Made with the journal and never changed; part of every position. */
  readonly id: string;

  /**
   * New events, their identities and the change of the ledger, all or nothing (one transaction). Events
   * that are held already for their organization and time are left out, whatever window, stream or
   * account brought them (R11).
   */
  append(commit: PageCommit): Promise<Appended>;

  /** Changes the ledger alone. A change that is made from counts or from stored windows is a function: see LedgerNow. */
  changeWindows(change: LedgerUpdate): Promise<void>;
  /** Finds the stream of this description or makes it. */
  stream(description: Omit<Stream, "id">): Promise<Stream>;
  windows(filter?: WindowFilter): Promise<readonly Window[]>;
  /** The time that the account's windows cover, whatever their state; neighbours as one stretch. Those for one reader do not count. */
  covered(account: string): Promise<readonly StreamCoverage[]>;
  /** The same of all other accounts' sealed windows that begin before this time. */
  sealedElsewhere(account: string, beforeMs: number): Promise<readonly StreamCoverage[]>;
  /** Streams of accounts other than these, each with the start of its oldest window that is neither sealed nor lost. */
  leftBehind(accounts: readonly string[]): Promise<readonly LeftBehind[]>;
  /**
   * The identities held for these organizations (null: the provider's own) in a half-open stretch of time; with
   * `from`, only those that this query has shown. A portal and an organization may show the same event. With `timesMs`,
   * only those of events at these times: very many others of the stretch then take no memory.
   */
  held(
    owners: readonly (string | null)[],
    fromMs: number,
    toMs: number,
    from?: Pick<Stream, "account" | "provider">,
    timesMs?: ReadonlySet<number>,
  ): Promise<HeldIdentities>;
  /** How many events are held by owner (R36). */
  countHeld(query: HeldQuery): Promise<ReadonlyMap<string, number>>;

  /** Missing stretches of time and the reasons; in the order of time. Refused windows are among them as open gaps. */
  gaps(query?: GapQuery): Promise<readonly Gap[]>;
  gapTotals(query?: GapQuery): Promise<GapTotals>;

  /** Whether and why the order of an account's answers is not trusted, also after a restart. */
  distrust(account: string): Promise<Distrust | undefined>;
  /** Undefined: it is trusted again. */
  setDistrust(account: string, distrust: Distrust | undefined): Promise<void>;

  /** A named reader with its own durable position; made at the journal's start when it is new. */
  reader(name: string): Promise<JournalReader>;
  /** Calls back after each append that brought new events; returns the way to stop that. */
  onAppend(listener: () => void): () => void;
  close(): Promise<void>;
}

/** The service's answers were not in the order of time, or showed an event on two pages of one list. */
export interface Distrust {
  readonly cause: "order" | "repeats";
  /** The answer's header, where it names another order. */
  readonly sort?: string;
  readonly untilMs: number;
}

/** A stream whose account is no longer in the config, and what of it was never settled. */
export interface LeftBehind {
  readonly stream: Stream;
  readonly fromMs: number;
}

export interface PageCommit {
  readonly account: string;
  readonly provider: string | null;
  /** Set when a single organization was asked for: whose the events without one are. */
  readonly organization: string | null;
  readonly page: PreparedPage;
  /** On the page's bytes. The journal retains a lease of its own; this one stays the caller's. */
  readonly lease: PageLease;
  /** By the service's clock. */
  readonly fetchedAtMs: number;
  /** The edge of the pass this page belongs to, as the page before returned it; empty for the first. */
  readonly edge: readonly string[];
  /** Events before this time, in this commit, count as late. */
  readonly lateBeforeMs: number;
  /** The places of unreadable events without a name that the same reading has met: their gaps are not about what it brings. */
  readonly passedOver?: readonly TimePlace[];
  /** For this reader alone (R21). */
  readonly reader: string | null;
  /** Events from this time on are left out: they are in the next window. Absent: the dedupe leaves them out there. */
  readonly endMs?: number;
  /** The services that were asked for; with them the counts of other windows over the same time stay true (R36). */
  readonly services?: readonly string[];
  /** The account's own organization was asked for, without its id. */
  readonly isOwn?: boolean;
  /** The change of the ledger that goes with it, made from what the dedupe found. Pure; called inside the transaction. */
  change(appended: Appended): WindowChange;
}

export interface Appended {
  /** The number of the new page; null when every event was held already. */
  readonly page: number | null;
  readonly fresh: number;
  readonly known: number;
  /** Same identity and bytes twice in one pass. */
  readonly repeated: number;
  /** Same identity as a held event, other bytes. */
  readonly changed: number;
  readonly late: number;
  /** The new events by organization. */
  readonly byOrganization: ReadonlyMap<string | null, { readonly events: number; readonly newestMs: number }>;
  readonly edge: readonly string[];
  /** Set where an event of an earlier page was taken for a changed copy of one on this page: the pass begins anew with this edge (R10). */
  readonly againWith?: readonly string[] | undefined;
  /** Indexes in the page of the repeated events. */
  readonly repeatedAt: readonly number[];
  /** Counts what is held, this page included. Valid inside `change` alone (R36). */
  countHeld(query: HeldQuery): ReadonlyMap<string, number>;
}

/** The state inside a change: what others have stored since the caller looked counts too. */
export interface LedgerNow {
  countHeld(query: HeldQuery): ReadonlyMap<string, number>;
  /** undefined: it was removed. */
  window(id: number): Window | undefined;
}

/** A function is pure, and is called inside the transaction. */
export type LedgerUpdate = WindowChange | ((now: LedgerNow) => WindowChange);

/** The owners are organizations, and "" for events without one: in a portal its own, else those of the account. */
export interface HeldQuery {
  readonly owners: readonly string[];
  readonly account: string;
  /** Of a provider's portal the events count that it has shown, whatever organization they name. */
  readonly provider: string | null;
  /** Half-open. */
  readonly fromMs: number;
  readonly toMs: number;
  /** Both set: of an owner that is also read with other services, at most so many count. Identities do not name the service. */
  readonly services?: readonly string[];
  readonly atMost?: Readonly<Record<string, number>>;
}

export interface WindowFilter {
  readonly account?: string;
  readonly states?: readonly WindowState[];
  readonly live?: boolean;
  readonly id?: number;
  readonly stream?: number;
  /** Only windows whose nextMs is at or before this time. */
  readonly dueMs?: number;
  /** Only windows that overlap this half-open stretch. */
  readonly fromMs?: number;
  readonly toMs?: number;
  /** They come in the order of their beginnings, the oldest first, unless this says otherwise. */
  readonly newestFirst?: boolean;
  readonly limit?: number;
}

/** The stretches of a stream's time line that windows cover, in order; a live window has no end. */
export interface StreamCoverage {
  readonly stream: Stream;
  readonly covered: readonly { readonly fromMs: number; readonly toMs: number }[];
}

/** Answers whether an event that the API shows is held. */
export interface HeldIdentities {
  readonly count: number;
  has(identity: Uint8Array): boolean;
}

/**
 * A reader's place in the journal. `read` never gives an event twice for rising positions and never
 * skips one; `commit` moves the durable position, together with the state, durably.
 */
export interface JournalReader {
  readonly name: string;
  readonly position: Position;
  readonly state: SinkState | undefined;
  /** The ends of batches whose bounds were made durable and which are not committed yet, in order (R19). */
  readonly bounds: readonly Position[];
  /** The next page with events for this reader after the position; null when there is none yet. */
  read(after: Position): Promise<JournalPage | null>;
  /** Whether there are events for this reader after the position. Reads none of them. */
  hasMore(after: Position): Promise<boolean>;
  /**
   * Bounds behind the position stay; all are dropped when it moves back. Events that were dead letters and were delivered
   * after all are no dead letters any more.
   */
  commit(
    position: Position,
    state: SinkState | undefined,
    delivered?: readonly JournalPlace[],
  ): Promise<void>;
  /** Together with the state, where one is given. */
  setBounds(bounds: readonly Position[], state?: SinkState): Promise<void>;
  /** Stored before the position passes them; the same one again is ignored (R18). */
  addDeadLetters(letters: readonly DeadLetter[]): Promise<void>;
  /** The reader's dead letters of events at or after the position, in order. */
  deadLettersAfter(position: Position): Promise<readonly DeadLetterPlace[]>;
  /** Whether this journal holds that page with that hash (R20). */
  holds(position: Position): Promise<boolean>;
  /** Whether everything after the position can still be read: nothing of it was trimmed. */
  reaches(position: Position): Promise<boolean>;
}

/** Its events, lines and their bytes are valid while the reader holds `lease` or a lease retained from it. */
export interface JournalPage {
  readonly number: number;
  /** The reader's own; the reader releases it. */
  readonly lease: PageLease;
  /** Read for this reader alone (R21). */
  readonly isOwn?: boolean;
  /** The index in the page of the first event given. */
  readonly first: number;
  /** From `first` on; made one by one, so that a large page costs what is used of it. */
  readonly count: number;
  event(index: number): JournalEvent;
  /** The events by the same indexes as lines, where their bytes stand like that in the page. */
  readonly lines: Lines | undefined;
  /** All its events in memory; undefined where some of their identities are not at hand. */
  readonly inPlace?: EventsInPlace | undefined;
  /** A copy of the events from `from` to before `to` for another thread. */
  slice?(from: number, to: number): PageSlice;
  /** The shapes of events, as in a scanned page; shares the page's memory. */
  shapes(from: number, to: number): Int32Array;
  /** Whether the event with this index names a correlation; most do not. */
  hasCorrelation(index: number): boolean;
  /** The position after the event with this index in the page. */
  after(index: number): Position;
}

/** The events of a page in place, each its own line, without an object for any of them. */
export interface Lines {
  event(index: number): JournalEvent;
  /** When the page was pulled, by the service's clock. */
  readonly fetchedAtMs: number;
  /** Those from `from` to before `to`, each with a line break behind it; shares the page's memory. */
  bytes(from: number, to: number): Uint8Array;
  /** How many bytes these are. */
  size(from: number, to: number): number;
  /** The end of those neighbours from `from` on, `to` at most, that share its organization and its day in UTC. */
  alikeFrom(from: number, to: number): number;
  /** Whole zstd frames with exactly these lines, where the journal has such; shares the page's memory. */
  frames?(from: number, to: number): Uint8Array | undefined;
  /** The answers of its events, where these were found already; shares the page's memory. */
  answers?(from: number, to: number): Int32Array | undefined;
}

/** Where an event is in the journal. */
export interface JournalPlace {
  readonly page: number;
  readonly index: number;
  readonly identity: string;
}

export interface DeadLetterPlace extends JournalPlace {
  readonly reason: string;
}

export interface DeadLetter {
  readonly event: JournalEvent;
  readonly reason: string;
  /** The destination's own answer, without secrets; its first 500 characters are kept. */
  readonly answer?: string | undefined;
}
