import type { Alarms } from "../core/alarms.ts";
import { type Clock, createSteadyTime } from "../core/clock.ts";
import { explain, isDiskTrouble } from "../core/errors.ts";
import { DAY_MS } from "../core/time.ts";
import type { createSpace, Usage } from "./space.ts";

const CHECK_MS = 1000;
/** A page enters only after a look that is no older than this: a second of reading can be several budgets. */
const LOOK_MS = 20;
const EXPIRE_MS = 3_600_000;
/** The most that the service keeps. */
const RETENTION_MS = 90 * DAY_MS;
const SAMPLE_MS = 3_600_000;
/** Shortest sample for estimating the fill rate. */
const PACE_MS_MIN = 60_000;
const HOURS = [1, 2, 4, 8, 12, 24, 48, 96, 168];

interface Sample {
  readonly ms: number;
  readonly bytes: number;
}

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
  // A shorter retention may be a plan's, a mistake, or of the accounts that are left. When it is raised again,
  // comparisons need all identities, or they would deliver events again (R12).
  const keptMs = Math.max(RETENTION_MS, retentionMs);
  const steadyMs = createSteadyTime(clock);
  let usedBytes = space.usedBytes();
  let checkedMs = Number.NEGATIVE_INFINITY;
  let lookedMs = steadyMs();
  let expiredMs = steadyMs();
  let samples: readonly Sample[] = [{ ms: steadyMs(), bytes: usedBytes }];
  const budgetBytes = space.usage().budgetBytes;

  async function keep(): Promise<void> {
    checkedMs = steadyMs();
    try {
      await makeRoom();
      alarms.clear("state_unwritable", "state");
    } catch (error) {
      if (!isDiskTrouble(error)) throw error;
      alarms.raise({
        kind: "state_unwritable",
        subject: "state",
        message: `The state file cannot be written: ${explain(error)}.`,
        remedy:
          "Free space on its disk, or repair the disk. Nothing is lost, and everything continues automatically.",
        severity: "critical",
      });
    }
    usedBytes = space.usedBytes();
    sample();
    if (usedBytes < budgetBytes / 2) alarms.clear("journal_filling", "journal");
    else warn(space.usage());
  }

  async function makeRoom(): Promise<void> {
    for (let turn = 0; turn < 10 && (await space.trim()); turn++);
    if (steadyMs() - expiredMs > EXPIRE_MS) {
      expiredMs = steadyMs();
      for (let turn = 0; turn < 100 && (await space.expire(clock.now(), keptMs)); turn++);
    }
    if (space.usedBytes() >= budgetBytes / 2) space.truncateLog();
  }

  function hasRoom(): boolean {
    if (steadyMs() - lookedMs >= LOOK_MS) {
      lookedMs = steadyMs();
      usedBytes = space.usedBytes();
    }
    return usedBytes < budgetBytes;
  }

  /** Two are kept, so that the older one is always one or two hours old. */
  function sample(): void {
    if (steadyMs() - samples.at(-1)!.ms < SAMPLE_MS) return;
    samples = [samples.at(-1)!, { ms: steadyMs(), bytes: usedBytes }];
  }

  /** Bucketed, so that the alarm is logged again only when the bucket changes. */
  function hoursLeft(): number | undefined {
    const { ms, bytes } = samples[0]!;
    const tookMs = steadyMs() - ms;
    if (tookMs < PACE_MS_MIN || usedBytes <= bytes) return undefined;
    const hours = (budgetBytes - usedBytes) / ((usedBytes - bytes) / tookMs) / 3_600_000;
    return HOURS.findLast((step) => step <= hours) ?? 1;
  }

  function warn(usage: Usage): void {
    const share = Math.floor((usedBytes / budgetBytes) * 100);
    const reader = usage.heldUpBy === null ? "no reader" : `the sink "${usage.heldUpBy}"`;
    const step = share >= 100 ? "all" : share >= 80 ? "more than 80%" : "more than half";
    const hours = share >= 100 ? undefined : hoursLeft();
    const soon = hours === undefined ? "" : `, and at this pace it is full in about ${hours}h`;
    alarms.raise({
      kind: "journal_filling",
      subject: "journal",
      message: `The journal uses ${step} of its budget; it is held up by ${reader}${soon}.`,
      remedy:
        "Fix or forget that sink, or raise journal.budget. At the budget polling waits; nothing is dropped.",
      severity: share >= 80 ? "critical" : "warning",
    });
  }

  return {
    /** To be called often; works once a second. */
    async turn(): Promise<void> {
      if (steadyMs() - checkedMs >= CHECK_MS) await keep();
    },
    hasRoom,
    /** Resolves when there is room for another page. */
    async room(signal: AbortSignal): Promise<void> {
      while (!hasRoom()) {
        await clock.sleep(CHECK_MS / 4, signal);
        // Many may be waiting; one look serves them all.
        if (steadyMs() - checkedMs >= CHECK_MS / 4) await keep();
      }
    },
  };
}
