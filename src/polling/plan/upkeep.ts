import { formatDuration } from "../../core/time.ts";
import { LIVE_BEHIND_MS_MAX, type Window } from "../../core/window.ts";
import { type PollContext, timeText } from "../context.ts";
import { warnOfHistoryLimit } from "../limits/history-alarm.ts";
import { warnOfGaps } from "../read/forgotten.ts";
import { warnOfMissing } from "../read/missing-alarms.ts";
import { mergedRuns } from "./merge-windows.ts";

const SMOOTHING_MS = 3_600_000;
const ALARM_MS = 48 * 3_600_000;
const STUCK_MS = 600_000;

/** Regular upkeep: smooths the traffic, merges sealed neighbours, and warns before events are lost. */
export function createUpkeep(context: PollContext, isRunning: (window: Window) => boolean) {
  const { account, journal, roster, clock, serviceClock, settings, alarms } = context;
  const swept = new Set<number>();
  let smoothedMs = clock.now();
  let oldestUnread: { fromMs: number; sinceMs: number } | undefined;

  async function smooth(): Promise<void> {
    const hours = (clock.now() - smoothedMs) / SMOOTHING_MS;
    if (hours < 1) return;
    await roster.smooth(account, hours);
    smoothedMs = clock.now();
  }

  async function merge(): Promise<void> {
    for (const stream of swept) {
      const sealed = await journal.windows({ stream, states: ["sealed"] });
      const nowMs = serviceClock.now();
      const merged = (windows: readonly Window[]) =>
        mergedRuns(
          windows.filter((window) => !isRunning(window)),
          settings,
          nowMs,
        );
      if (merged(sealed).put.length === 0) continue;
      // As they are stored then: other reads may add to their counts meanwhile.
      await journal.changeWindows((now) => merged(sealed.flatMap(({ id }) => now.window(id) ?? [])));
    }
    swept.clear();
  }

  /** An unread stretch that nears the service's retention is an alarm with a countdown. */
  async function warnOfLoss(): Promise<void> {
    const oldest = earlierOf(await oldestOf("unread"), await oldestBehind());
    if (oldest?.fromMs !== oldestUnread?.fromMs)
      oldestUnread = oldest && { fromMs: oldest.fromMs, sinceMs: clock.now() };
    // A first read begins at the horizon: no alarm while it makes progress.
    const isStuck = oldestUnread !== undefined && clock.now() - oldestUnread.sinceMs > STUCK_MS;
    warn(
      "loss_near",
      isStuck ? oldest : undefined,
      "See the other alarms: something keeps it from being read.",
    );
    warn(
      "loss_of_refused_near",
      await oldestOf("refused"),
      "See why the organization is refused, or leave it out.",
    );
  }

  /** Refused windows count as long as they are tried again and the service holds a part of them. */
  async function oldestOf(state: "unread" | "refused"): Promise<Window | undefined> {
    const filter = { account, states: [state], live: false, limit: 1 };
    const tried = { dueMs: Number.MAX_SAFE_INTEGER, fromMs: serviceClock.now() - settings.retentionMs };
    return (await journal.windows(state === "refused" ? { ...filter, ...tried } : filter))[0];
  }

  /** No plan closes the live windows while the service refuses the account. */
  async function oldestBehind(): Promise<UnreadStretch | undefined> {
    const live = await journal.windows({ account, live: true });
    const toMs = Math.min(...live.map((window) => window.toMs));
    const isBehind = live.length > 0 && serviceClock.now() - toMs > LIVE_BEHIND_MS_MAX;
    return isBehind ? { fromMs: toMs, reason: null } : undefined;
  }

  function warn(
    kind: "loss_near" | "loss_of_refused_near",
    oldest: UnreadStretch | undefined,
    remedy: string,
  ): void {
    const leftMs =
      oldest === undefined
        ? Number.POSITIVE_INFINITY
        : oldest.fromMs + settings.retentionMs - serviceClock.now();
    if (oldest === undefined || leftMs > ALARM_MS) {
      alarms.clear(kind, account);
      return;
    }
    const left = leftMs <= 0 ? "has begun to forget them" : `forgets them in ${formatDuration(leftMs)}`;
    alarms.raise({
      kind,
      subject: account,
      message: `Events from ${timeText(oldest.fromMs)} on are unread${oldest.reason === null ? "" : ` (${oldest.reason})`}, and the service ${left}.`,
      remedy,
      severity: kind === "loss_near" && leftMs < ALARM_MS / 4 ? "critical" : "warning",
    });
  }

  /** These read the ledger alone, so they are made while the account is refused, too. */
  async function warnings(): Promise<void> {
    await warnOfLoss();
    await warnOfGaps(context);
    await warnOfMissing(context);
    await warnOfHistoryLimit(context);
  }

  return {
    /** Notes a stream whose sealed windows may have neighbours now. */
    swept: (stream: number) => void swept.add(stream),
    async turn(): Promise<void> {
      await smooth();
      await merge();
      await warnings();
    },
    warnings,
  };
}

type UnreadStretch = Pick<Window, "fromMs" | "reason">;

function earlierOf(left: UnreadStretch | undefined, right: UnreadStretch | undefined) {
  if (left === undefined || right === undefined) return left ?? right;
  return left.fromMs <= right.fromMs ? left : right;
}
