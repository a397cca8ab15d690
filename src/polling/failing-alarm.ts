import type { Stream } from "../core/window.ts";
import { type PollContext, subjectOf } from "./context.ts";
import type { SourceFault } from "./read/source.ts";

const FAILURES_TO_ALARM = 5;
/** Each of these takes as long as the time-out of a body. */
const STALLS_TO_ALARM = 2;

/**
 * The alarm `window_failing`. An organization is read in several windows: its live one works while a stretch of its history
 * fails, so the alarm lasts until none of them fails.
 */
export function createFailingAlarm(
  context: PollContext,
  failing: () => Iterable<{ readonly stream: Stream; readonly failures: number }>,
) {
  const { account, journal, alarms } = context;
  const raised = new Set<string>();

  function isFailing(subject: string): boolean {
    for (const { stream, failures } of failing())
      if (failures >= STALLS_TO_ALARM && subjectOf(context, stream) === subject) return true;
    return false;
  }

  function clear(subject: string): void {
    raised.delete(subject);
    alarms.clear("window_failing", subject);
  }

  return {
    failed(stream: Stream, failures: number, fault: SourceFault): void {
      if (failures < (fault.isStalled ? STALLS_TO_ALARM : FAILURES_TO_ALARM)) return;
      const { organizations } = stream;
      const whom = organizations.length > 1 ? `${organizations.length} organizations together` : "it";
      const subject = subjectOf(context, stream);
      raised.add(subject);
      alarms.raise({
        kind: "window_failing",
        subject,
        message: `Reading ${whom} failed ${failures} times in a row: ${fault.message}`,
        remedy:
          "It is retried automatically, and events are lost only if this lasts until the service forgets them. Run `tidemark check --online` to see what the service answers.",
        severity: "warning",
      });
    },

    /** A window of the stream was read. */
    worked(stream: Stream): void {
      const subject = subjectOf(context, stream);
      if (raised.has(subject) && !isFailing(subject)) clear(subject);
    },

    /** After a plan: no window can end the alarm of an organization that is not read any more. */
    async planned(): Promise<void> {
      if (raised.size === 0) return;
      const live = await journal.windows({ account, live: true });
      const read = new Set(live.map(({ stream }) => subjectOf(context, stream)));
      for (const subject of raised) if (!read.has(subject) && !isFailing(subject)) clear(subject);
    },
  };
}
