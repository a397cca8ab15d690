/** Live pages come before sweeps, sweeps before backfill. */
export type PagePriority = 0 | 1 | 2;

/**
 * Decides whether another page may be read now, and when it may be committed. The journal owns it: its inputs are the
 * disk budget, the memory of pages in flight and how far the readers are. Polling asks before every request and
 * every commit, and knows nothing of the reasons.
 */
export interface PageGate {
  /**
   * Resolves when a page of up to so many events may be asked for. Lower priorities wait for higher ones, equal
   * ones for those that came first. The result is called once the page is committed or given up. `troubled` names a
   * stream that is known to stall or to send nonsense; all of these share one place, and it rejects with
   * PlaceTakenError while another has it.
   */
  enter(events: number, priority: PagePriority, signal: AbortSignal, troubled?: string): Promise<() => void>;
  /** The same without waiting; undefined when the page may not be read now. */
  tryEnter(events: number): (() => void) | undefined;
  /** Commits a page by `work`: a live page at once, any other when it delays no live page. Gives what `work` gives. */
  commit<Result>(priority: PagePriority, signal: AbortSignal, work: () => Promise<Result>): Promise<Result>;
}

/** It is another troubled stream's turn: ask again a moment later. */
export class PlaceTakenError extends Error {
  override readonly name = "PlaceTakenError";

  constructor() {
    super("Another stream that stalls or sends nonsense is being read.");
  }
}

/** The most events that the service puts into one page. */
export const FULL_PAGE_EVENTS = 10_000;
