import { type Gap, isListed, TOO_LARGE } from "../../core/gap.ts";
import { DAY_MS } from "../../core/time.ts";
import { type PollContext, timeText } from "../context.ts";
import { givenUpMs } from "./missing-events.ts";

/** The alarm stays for so long after the newest of its events was given up. */
const ALARM_MS = 7 * DAY_MS;
const KINDS = ["oversized_event", "unreadable_event"] as const;
type Kind = (typeof KINDS)[number];

const REMEDIES: Record<Kind, string> = {
  oversized_event: "Raise `bodyMax` of the account and run `tidemark reconcile` over this time.",
  unreadable_event:
    "The gap is listed by `tidemark coverage`. Ask the vendor to correct the event, or why its answers differ, then run `tidemark reconcile` over this time.",
};

/**
 * The alarms about single events that are missing. They are raised from the ledger, so that a restart does not forget them
 * and they end with their gaps.
 */
export async function warnOfMissing(context: PollContext): Promise<void> {
  const { account, alarms, clock, journal } = context;
  const gaps = (await journal.gaps({ account, reasons: ["unreadable"] })).filter((gap) => {
    const sinceMs = isListed(gap) ? givenUpMs(context, gap.foundMs) : gap.foundMs!;
    return sinceMs <= clock.now() && clock.now() < sinceMs + ALARM_MS;
  });
  for (const kind of KINDS) {
    const bySubject = new Map<string, Gap[]>();
    for (const gap of gaps) {
      if (kindOf(gap) !== kind) continue;
      const subject = `${account}/${gap.organization ?? gap.provider ?? ""}`;
      bySubject.set(subject, [...(bySubject.get(subject) ?? []), gap]);
    }
    for (const [subject, missing] of bySubject)
      alarms.raise({
        ...{ kind, subject, message: messageOf(missing), remedy: REMEDIES[kind], severity: "critical" },
      });
    for (const alarm of alarms.list())
      if (alarm.kind === kind && alarm.subject.startsWith(`${account}/`) && !bySubject.has(alarm.subject))
        alarms.clear(kind, alarm.subject);
  }
}

function kindOf({ detail }: Gap): Kind {
  return detail.includes(TOO_LARGE) ? "oversized_event" : "unreadable_event";
}

function messageOf(gaps: readonly Gap[]): string {
  const { fromMs, detail } = gaps[0]!;
  const more = gaps.length === 1 ? "" : `, and ${gaps.length - 1} more`;
  return `An event of ${timeText(fromMs)} or after is missing: ${detail}${more}.`;
}
