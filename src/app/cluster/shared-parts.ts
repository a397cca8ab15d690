import type { Config } from "../../config/schema.ts";
import type { Alarms } from "../../core/alarms.ts";
import { createBufferPool } from "../../core/buffer-pool.ts";
import { systemClock } from "../../core/clock.ts";
import type { Metrics } from "../../core/metrics.ts";
import type { Encoder } from "../../core/page-slice.ts";
import { formatDuration } from "../../core/time.ts";
import { paceOf } from "../../polling/config.ts";
import { createPace, type Pace } from "../../polling/limits/pace.ts";
import type { Preparer } from "../../polling/prepare/preparer.ts";
import type { Discovered, SharedLaneParts } from "./lane-parts.ts";

/** Lists of organizations are used again for so long: lanes that start together ask once. */
const DISCOVERED_MS = 60_000;

/** Parts that the lanes of one machine share: memory, the pace of each key, the lists of organizations, the worker threads. */
export function createSharedParts(
  config: Config,
  parts: {
    readonly measured: Metrics;
    readonly alarms: Alarms;
    readonly preparer: Preparer;
    readonly encoder?: Encoder | undefined;
  },
): {
  readonly parts: SharedLaneParts;
  readonly preparer: Preparer;
  readonly encoder: Encoder | undefined;
  close(): Promise<void>;
} {
  const paces = new Map<string, Pace>();
  const lists = new Map<string, { readonly atMs: number; readonly list: Promise<Discovered> }>();

  function paceFor(account: string): Pace {
    const known = paces.get(account);
    if (known !== undefined) return known;
    const onLongWait = (untilMs: number | null) => warnOfWait(parts.alarms, account, untilMs);
    const pace = createPace(systemClock, { ...paceOf(config.polling), onLongWait });
    paces.set(account, pace);
    return pace;
  }

  return {
    parts: {
      memory: createBufferPool(),
      measured: parts.measured,
      closeInTurn: oneAfterTheOther(),
      // A lane that closes does not stop the pace of the others.
      paceOf: (account) => ({ ...paceFor(account), stop() {} }),
      discover(account, look) {
        const known = lists.get(account);
        if (known !== undefined && systemClock.now() - known.atMs < DISCOVERED_MS) return known.list;
        const list = look();
        list.catch(() => lists.delete(account));
        lists.set(account, { atMs: systemClock.now(), list });
        return list;
      },
    },
    preparer: { ...parts.preparer, close: async () => {} },
    encoder: parts.encoder && { ...parts.encoder, close: async () => {} },
    async close() {
      for (const pace of paces.values()) pace.stop();
      await Promise.all([parts.preparer.close(), parts.encoder?.close()]);
    },
  };
}

/** One piece of work after the other. Rejects at once when the signal aborts before the turn has come. */
function oneAfterTheOther(): SharedLaneParts["closeInTurn"] {
  let last: Promise<unknown> = Promise.resolve();
  return (work, signal) => {
    let stop = () => {};
    const stopped = new Promise<never>((_, reject) => {
      stop = () => reject(signal.reason);
      signal.addEventListener("abort", stop, { once: true });
    });
    const turn = last.then(() => {
      signal.removeEventListener("abort", stop);
      signal.throwIfAborted();
      return work();
    });
    last = turn.catch(() => {});
    return Promise.race([turn, stopped]);
  };
}

function warnOfWait(alarms: Alarms, account: string, untilMs: number | null): void {
  if (untilMs === null) {
    alarms.clear("service_wait", account);
    return;
  }
  const until = new Date(untilMs).toISOString();
  alarms.raise({
    kind: "service_wait",
    subject: account,
    message: `The service asks to wait until ${until} (${formatDuration(untilMs - systemClock.now())}); one request is tried every ten minutes.`,
    remedy:
      "Nothing is lost while the service holds the events. If the wait stays this long, ask the vendor about the account's rate limit.",
    severity: "warning",
  });
}
