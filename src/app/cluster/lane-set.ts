import type { FenceInstant } from "../../cluster/self-fence.ts";
import type { Log } from "../../core/log.ts";
import type { LaneRunner, LaneStatus } from "./lane.ts";

/** The lanes of one machine. A lane that is closing is opened again only after it has closed. */
export interface LaneSet {
  /** In the order of their numbers. */
  statuses(): LaneStatus[];
  held(): number[];
  /** Opens and closes lanes, so that exactly these run; the others run on (C13). */
  want(lanes: readonly number[]): void;
  /** The group has confirmed the assignment. */
  confirm(at: FenceInstant): void;
  /** Resolves when the lanes that are closing now have closed. */
  closed(): Promise<void>;
}

export function createLaneSet(open: (lane: number) => LaneRunner, log: Log): LaneSet {
  const runners = new Map<number, LaneRunner>();
  const closing = new Map<number, Promise<void>>();
  let wanted: ReadonlySet<number> = new Set();

  function reconcile(): void {
    for (const [lane, runner] of runners) if (!wanted.has(lane)) close(lane, runner);
    for (const lane of wanted) if (!runners.has(lane) && !closing.has(lane)) runners.set(lane, open(lane));
  }

  function close(lane: number, runner: LaneRunner): void {
    runners.delete(lane);
    const done = runner.close().finally(() => {
      closing.delete(lane);
      log.info({ lane }, "A lane was closed.");
      reconcile();
    });
    closing.set(lane, done);
  }

  return {
    statuses: () => [...runners.values()].map(({ status }) => status).toSorted((a, b) => a.lane - b.lane),
    held: () => [...runners.keys()],
    want(lanes) {
      wanted = new Set(lanes);
      reconcile();
    },
    confirm(at) {
      for (const runner of runners.values()) runner.confirm(at);
    },
    async closed() {
      await Promise.allSettled(closing.values());
    },
  };
}
