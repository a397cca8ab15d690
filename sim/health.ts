import type { App } from "../src/app.ts";
import { createCalm, returnedMs, statedMs } from "./calm.ts";
import { nameOf, timeText, type Violation } from "./findings.ts";
import type { History } from "./history.ts";
import { countsIn } from "./known.ts";
import { readLedger } from "./ledger.ts";
import { keptApart, promiseFor } from "./oracle.ts";
import { isConfigured, type Plan } from "./plan.ts";

/**
 * Looks at what the program says of itself while it runs: "good" is false when an event that has been
 * readable for the stated time is in neither its sink nor a gap.
 */
export async function judgeHealth(
  plan: Plan,
  history: History,
  app: App,
  nowMs: number,
): Promise<Violation[]> {
  const up = history.up.at(-1)!;
  if (nowMs - up.fromMs < statedMs(plan)) return [];
  const status = await app.view.status();
  if (status.health !== "good") return [];
  const found: Violation[] = [];
  const calm = createCalm(plan, history, nowMs);
  const ledger = await readLedger(app);
  const kept = keptApart(app);
  for (const sink of history.sinks) {
    if (sink.untilMs <= nowMs) continue;
    const counts = countsIn(history, sink, []);
    for (const event of history.service.events) {
      if (event.odd !== null || counts.has(event) || kept.has(event.text)) continue;
      if (Math.max(event.shownMs, event.timeMs) > nowMs - statedMs(plan)) continue;
      if (
        !isReadableNow(event.organization, event.timeMs) ||
        promiseFor(plan, history, calm, event, sink, nowMs) === "nothing"
      )
        continue;
      if (returnedMs(plan, event) - event.timeMs > plan.settings.overlapMs - 10_000 || ledger.isGap(event))
        continue;
      found.push({
        rule: "health",
        message: `"good" at ${timeText(nowMs)}, but ${nameOf(event)} is not in ${sink.plan.name}; ${ledger.describe(event)}`,
      });
    }
  }
  return found.slice(0, 3);

  function isReadableNow(organization: number, timeMs: number): boolean {
    return (
      isConfigured(history.settings, organization) &&
      history.service.isListed(organization, nowMs) &&
      timeMs > nowMs - plan.settings.retentionMs + 3_600_000
    );
  }
}
