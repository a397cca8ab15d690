import type { Clock } from "../core/clock.ts";
import type { JournalPage, JournalReader } from "../core/journal.ts";
import type { Position } from "../core/position.ts";
import type { Step } from "../core/step.ts";

/** Events of one step, and of one part of it. A step ends early when its time is over. */
const EVENTS_MAX = 4000;
const PART_EVENTS = 100;
/** For drift, an event of a new shape takes 100 times as long as one of a known shape. */
const STEP_MS = 8;
const COMMIT_MS = 1000;

export interface Following {
  readonly reader: JournalReader;
  readonly clock: Clock;
  /** Gets the events of a page from `from` to before `to`: all in journal order, each at least once. They are valid during the call alone. */
  apply(page: JournalPage, from: number, to: number): void | Promise<void>;
  /** Makes the position durable, together with whatever `apply` has left to store. */
  commit(to: Position): Promise<void>;
  /** True while nothing more will come. */
  draining(): boolean;
}

export interface Follower {
  readonly step: Step;
  /** How far it has come; the durable position follows. */
  readonly at: Position;
  /** Whether all that was applied is durable. */
  readonly isSettled: boolean;
}

/**
 * A reader of the journal inside the program. The position is committed once a second, and at the end. Each commit
 * waits for the disk, and the events since the last one are only applied again after a crash.
 */
export function createFollower({ reader, clock, apply, commit, draining }: Following): Follower {
  let at = reader.position;
  let committed = at;
  let committedMs = clock.now();

  async function settle(): Promise<void> {
    const isDue = draining() || Math.abs(clock.now() - committedMs) > COMMIT_MS;
    if (committed === at || !isDue) return;
    await commit(at);
    committed = at;
    committedMs = clock.now();
  }

  const step: Step = async () => {
    const page = await reader.read(at);
    if (page === null) {
      await settle();
      return "idle";
    }
    try {
      const end = page.first + Math.min(page.count, EVENTS_MAX);
      const startedMs = clock.now();
      for (let from = page.first; from < end && clock.now() - startedMs < STEP_MS; ) {
        const to = Math.min(end, from + PART_EVENTS);
        await apply(page, from, to);
        at = page.after(to - 1);
        from = to;
      }
    } finally {
      page.lease.release();
    }
    await settle();
    return "again";
  };

  return {
    step,
    get at() {
      return at;
    },
    get isSettled() {
      return committed === at;
    },
  };
}
