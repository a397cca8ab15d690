import { formatDuration } from "../core/time.ts";
import { type AccountReading, type PollingConfig, paceOf, pollTimes, settingsOf } from "./config.ts";
import { createLearned, type PollContext, timeText } from "./context.ts";
import { createPace } from "./limits/pace.ts";
import { createServiceClock } from "./limits/service-clock.ts";
import type { DiscoveryOptions } from "./plan/discovery.ts";
import { createPoller, type Poller } from "./poller.ts";

/** The parts that the composition root supplies; the rest of the context is made here. */
export interface PollerParts
  extends Omit<PollContext, "account" | "settings" | "learned" | "serviceClock" | "pace"> {
  readonly discover: DiscoveryOptions["discover"];
  /** A pace that several pollers of one key share. */
  readonly pace?: PollContext["pace"];
  /** The next time of a cron expression in UTC; undefined when there is none. */
  nextRun(expression: string, afterMs: number): number | undefined;
}

/** The poller of one account, with a pace and a service clock of its own. */
export function openPoller(
  account: AccountReading & { readonly name: string; readonly bodyMax: number },
  polling: PollingConfig,
  { discover, nextRun, pace, ...parts }: PollerParts,
): Poller {
  const { clock, log } = parts;
  const context: PollContext = {
    ...parts,
    account: account.name,
    settings: settingsOf(account, polling),
    learned: createLearned(polling.headerBytes),
    serviceClock: createServiceClock(clock),
    pace:
      pace ??
      createPace(clock, { ...paceOf(polling), onLongWait: (untilMs) => warnOfWait(context, untilMs) }),
    log: log.child({ account: account.name }),
  };
  return createPoller({
    context,
    discover,
    isFromConfig: Array.isArray(account.organizations),
    provider: account.provider ?? null,
    discoveryMs: polling.discovery,
    nextPollMs: pollTimes(polling.interval, nextRun),
    workers: polling.concurrency,
  });
}

/** A long wait is an alarm: its silence must not look like health (R33). */
function warnOfWait({ account, alarms, clock }: PollContext, untilMs: number | null): void {
  if (untilMs === null) {
    alarms.clear("service_wait", account);
    return;
  }
  alarms.raise({
    kind: "service_wait",
    subject: account,
    message: `The service asks to wait until ${timeText(untilMs)} (${formatDuration(untilMs - clock.now())}); one request is tried every ten minutes.`,
    remedy:
      "Nothing is lost while the service holds the events. If the wait stays this long, ask the vendor about the account's rate limit.",
    severity: "warning",
  });
}
