import type { Alarms } from "../core/alarms.ts";
import { formatDuration } from "../core/time.ts";
import type { SinkView } from "../core/view/sinks.ts";
import type { View } from "../core/view.ts";

/** Raises and clears `sink_behind` and `dead_letters` from the facts of the view (R40). */
export function createSinkWatch(view: Pick<View, "sinks" | "deadLetters">, alarms: Alarms, behindMs: number) {
  return async (): Promise<void> => {
    const { sinks } = await view.sinks();
    for (const sink of sinks) {
      // A sink that is no longer in the config has no loop that could catch up.
      if (sink.type === null) continue;
      watchLag(sink, alarms, behindMs);
      await watchDeadLetters(sink, view, alarms);
    }
  };
}

function watchLag({ name, lagEvents, lagMs, state }: SinkView, alarms: Alarms, behindMs: number): void {
  if (lagEvents === 0 || lagMs < behindMs) {
    alarms.clear("sink_behind", name);
    return;
  }
  alarms.raise({
    kind: "sink_behind",
    subject: name,
    message: `The oldest event that waits for ${name} is more than ${formatDuration(doubled(lagMs, behindMs))} old.`,
    remedy:
      state === "running"
        ? "The sink works, but slower than events arrive. Check the load of the destination; events are kept in the journal until they are delivered."
        : "Another alarm of this sink gives the cause. Events are kept in the journal until they are delivered.",
    severity: "warning",
  });
}

async function watchDeadLetters(
  { name, deadLetters }: SinkView,
  view: Pick<View, "deadLetters">,
  alarms: Alarms,
): Promise<void> {
  if (deadLetters === 0) {
    alarms.clear("dead_letters", name);
    return;
  }
  const { groups } = await view.deadLetters({ sink: name, limit: 1 });
  const least = stepped(deadLetters);
  alarms.raise({
    kind: "dead_letters",
    subject: name,
    message: `${name} refused ${least === deadLetters ? "" : "more than "}${least} ${least === 1 ? "event" : "events"}. Most frequent reason: ${groups[0]?.reason ?? "unknown"}`,
    remedy: `See "tidemark dead-letters list --sink ${name}". Correct the cause, then replay them, or delete them.`,
    severity: "warning",
  });
}

/** Behind, rounded down to the limit times 1, 2, 4 …: the alarm is logged again only when it has doubled. */
function doubled(lagMs: number, limitMs: number): number {
  return limitMs * 2 ** Math.floor(Math.log2(lagMs / limitMs));
}

/** Exact below 10, then rounded down to 10, 20, 50, 100 …, for the same reason. */
function stepped(count: number): number {
  if (count < 10) return count;
  const power = 10 ** Math.floor(Math.log10(count));
  return (count >= 5 * power ? 5 : count >= 2 * power ? 2 : 1) * power;
}
