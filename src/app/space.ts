import type { Alarms } from "../core/alarms.ts";
import type { Clock } from "../core/clock.ts";
import { formatDuration } from "../core/time.ts";
import type { createSpace, Usage } from "../journal/space.ts";

const CHECK_MS = 1000;
const EXPIRE_MS = 3_600_000;

/**
 * Keeps the state file within its budget: what every reader has passed is trimmed; at the budget polling
 * waits, since the service still holds the events; long before that an alarm names the reader that holds
 * it up and the hours left. Nothing is ever dropped to make room (R13).
 */
export function createSpaceKeeper(
  space: ReturnType<typeof createSpace>,
  clock: Clock,
  alarms: Alarms,
  retentionMs: number,
) {
  let usedBytes = space.usedBytes();
  let checkedMs = 0;
  let expiredMs = clock.now();
  let past: { ms: number; bytes: number } = { ms: clock.now(), bytes: usedBytes };
  const budgetBytes = space.usage().budgetBytes;

  function keep(): void {
    checkedMs = clock.now();
    for (let turn = 0; turn < 10 && space.trim(); turn++);
    if (clock.now() - expiredMs > EXPIRE_MS) {
      expiredMs = clock.now();
      for (let turn = 0; turn < 100 && space.expire(clock.now(), retentionMs); turn++);
    }
    usedBytes = space.usedBytes();
    if (usedBytes < budgetBytes / 2) alarms.clear("journal_filling", "journal");
    else warn(space.usage());
    if (clock.now() - past.ms > EXPIRE_MS) past = { ms: clock.now(), bytes: usedBytes };
  }

  function warn(usage: Usage): void {
    const grownPerMs = (usedBytes - past.bytes) / Math.max(1, clock.now() - past.ms);
    const leftMs = grownPerMs > 0 ? (budgetBytes - usedBytes) / grownPerMs : undefined;
    const share = Math.floor((usedBytes / budgetBytes) * 100);
    const reader = usage.heldUpBy === null ? "no reader" : `the sink "${usage.heldUpBy}"`;
    const step = share >= 100 ? "all" : share >= 80 ? "more than 80%" : "more than half";
    alarms.raise({
      kind: "journal_filling",
      subject: "journal",
      message: `The journal uses ${step} of its budget; it is held up by ${reader}${leftMs === undefined ? "" : `, and at this pace it is full in about ${formatDuration(Math.max(3_600_000, leftMs))}`}.`,
      remedy:
        "Mend or forget that sink, or raise journal.budget. When the budget is reached polling waits; nothing is dropped.",
      severity: share >= 80 ? "critical" : "warning",
    });
  }

  return {
    /** To be called often; works once a second. */
    turn(): void {
      if (clock.now() - checkedMs >= CHECK_MS) keep();
    },
    /** Resolves when there is room for another page. */
    async room(signal: AbortSignal): Promise<void> {
      while (usedBytes >= budgetBytes) {
        await clock.sleep(CHECK_MS / 4, signal);
        keep();
      }
    },
  };
}
