import type { FilledStretch, MetEvents, NewGap } from "./gap.ts";
import type { Stream } from "./stream.ts";

export type { Stream } from "./stream.ts";

/**
 * unread: no whole pass has reached its end yet. read: one has. sealed: the last due sweep found nothing
 * new. expired: the service forgot it before it was read; a gap. refused: the service does not give it to
 * us, or it was taken out of the config; `reason` says why and `nextMs` when it is tried again.
 */
export type WindowState = "unread" | "read" | "sealed" | "expired" | "refused";

/** A live window further behind than this is closed by the next plan. The time after its end is unread. */
export const LIVE_BEHIND_MS_MAX = 3_600_000;

/** A stretch of a stream's time line, half-open, in whole milliseconds of the service's time. */
export interface Window {
  readonly id: number;
  readonly stream: Stream;
  readonly fromMs: number;
  /** How far a live window has been read. */
  readonly toMs: number;
  /** The newest window of its stream: its end moves on with every whole pass. */
  readonly live: boolean;
  readonly state: WindowState;
  /** A pass that was begun and has not reached its last page; goes on from its cursor. */
  readonly pass: Pass | null;
  /** When the last whole pass or sweep began, by the earlier clock; in a live window by the service's. */
  readonly askedMs: number | null;
  /** How many of the due sweeps are done. */
  readonly sweeps: number;
  /** When the next sweep is due, or the next try of a refused window; null: nothing is due. */
  readonly nextMs: number | null;
  /** How many events the API gave in the last whole pass or sweep, without its own repeats; null before. */
  readonly apiCount: number | null;
  /** How many events the journal held for this window right after that. */
  readonly heldCount: number | null;
  /** Both counts by organization, where a query reads several or names none; null: not counted that way. */
  readonly counts: OwnerCounts | null;
  /** Events found after the window had been read, repeats in the API's own answers, re-reads with other bytes. */
  readonly late: number;
  readonly repeated: number;
  readonly changed: number;
  readonly reason: string | null;
  /** Made by a one-off backfill for this sink alone; null: for every reader. */
  readonly reader: string | null;
}

/**
 * The service's count and ours by organization; "" has the events that name none. Organizations without
 * events are left out: their counts are 0. An event that was skipped as unreadable belongs to none of them.
 */
export type OwnerCounts = Readonly<Record<string, readonly [apiCount: number, heldCount: number]>>;

/** When a pass or a comparison began. */
export interface PassBegin {
  /** By the service's clock. */
  readonly begunMs: number;
  /** By this machine's clock; absent in passes of older versions. */
  readonly localMs?: number | undefined;
}

export interface MissingEvent {
  /** In hex; "" for an event without an id, whose identity is made of all its bytes. It is looked for by its time. */
  readonly identity: string;
  readonly owner: string;
  /** As it is stored; an event without a readable time has its place in `placeMs`. */
  readonly timeMs: number;
  readonly placeMs: number;
  /** As a gap names it; absent without an id, and in a pass of an older version. */
  readonly name?: string | undefined;
  readonly detail: string;
}

/** The exact request of a pass, and how far it has come; polling/read/pass.ts has its steps. */
export interface Pass extends PassBegin {
  /** Of the request under way: later than the pass's own start once a request was begun anew further on. */
  readonly startMs: number;
  /** null: no end was asked for, so events stamped in the future are seen. */
  readonly endMs: number | null;
  readonly limit: number;
  /** The search_after for the next page, byte for byte; null before the first page. */
  readonly cursor: string | null;
  readonly pages: number;
  readonly events: number;
  readonly repeated: number;
  readonly changed: number;
  readonly fresh: number;
  /** Events inside the window by organization, without repeats; absent in passes of older versions. */
  readonly shown?: Readonly<Record<string, number>>;
  /**
   * Names of the events that were skipped because each alone cannot be read (R8, R32). One that comes again has its name
   * already. One without a name has its place instead, which others may share (polling/read/pass.ts).
   */
  readonly skips?: readonly string[];
  /** How many more were skipped. */
  readonly skipped?: number;
  /** Where the pass itself began, once a request was begun anew further on. */
  readonly firstMs?: number | undefined;
  /** Its answers do not rise in time. No time shows how far it came, so only its cursor or its own start is a place. */
  readonly isUnordered?: boolean | undefined;
  /** Every event before this time has been committed; absent in passes of older versions. */
  readonly reachedMs?: number | undefined;
  /** The time of the last readable event since the request began; absent where answers do not rise in time. */
  readonly latestMs?: number | undefined;
  /** After a page has failed: the cause must be among so many of the next events. */
  readonly suspects?: number | undefined;
  /** After an event was passed over: pages are full again past this time; null until the next event shows it. */
  readonly resumeMs?: number | null | undefined;
  /** Identity and digest of the events that share the last page's last timestamp (R10 across page edges). */
  readonly edge: readonly string[];
  /** Events that a comparison showed before this pass, and that were not held then (polling/read/missing-events.ts). */
  readonly missing?: readonly MissingEvent[] | undefined;
  /** Events that an earlier page of the same chain of cursors had shown: the order of the pages is not stable. */
  readonly shownAgain?: number | undefined;
  /** The last page by its size and the identities at both ends; absent in passes of older versions. */
  readonly lastPage?: string | undefined;
}

/** The reason of a window that is read and not sealed, because a list of its events showed some of them twice. */
export const CAME_TWICE = "the service listed some events twice, so others may have been left out";

export type NewWindow = Omit<Window, "id">;

/** The window was replaced by others meanwhile: nothing was changed, and what replaced it is read anew (R1). */
export class StaleWindowError extends Error {
  override readonly name = "StaleWindowError";

  constructor(id: number) {
    super(`The window ${id} was replaced meanwhile.`);
  }
}

/** All changes of one call are made together or not at all; a window that is gone is a StaleWindowError. */
export interface WindowChange {
  readonly put?: readonly Window[];
  readonly add?: readonly NewWindow[];
  readonly remove?: readonly number[];
  /** Stretches that are lost with this change. A gap that is recorded already is not recorded twice. */
  readonly gaps?: readonly NewGap[];
  /** Stretches that have been read after all; applied before `gaps`. */
  readonly filled?: readonly FilledStretch[];
  /** Unreadable events that a reading has met; applied after `gaps`. */
  readonly met?: MetEvents | undefined;
}

export function newWindow(
  stream: Stream,
  fromMs: number,
  toMs: number,
  more: Partial<Omit<NewWindow, "stream" | "fromMs" | "toMs">> = {},
): NewWindow {
  return {
    stream,
    fromMs,
    toMs,
    live: false,
    state: "unread",
    pass: null,
    askedMs: null,
    sweeps: 0,
    nextMs: null,
    apiCount: null,
    heldCount: null,
    counts: null,
    late: 0,
    repeated: 0,
    changed: 0,
    reason: null,
    reader: null,
    ...more,
  };
}
