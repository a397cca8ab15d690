import type { ModelEvent } from "./events.ts";
import type { Violation } from "./findings.ts";
import type { History, SinkLife } from "./history.ts";

/**
 * The delivered events that the state must know. An event that was delivered after a backup was made is not in
 * the backup. When the backup is restored, the state knows the event only once it has been read again, which is
 * when a folder of now has it.
 */
export function knownEvents(history: History, nowMs: number): ReadonlySet<ModelEvent> {
  const known = new Set<ModelEvent>();
  for (const sink of history.sinks)
    for (const event of countsIn(history, sink, []).keys())
      if (sink.untilMs > nowMs || !history.forgotten.has(event)) known.add(event);
  return known;
}

/** The state is replaced by a copy that knows only these events. */
export function forgetSince(history: History, copied: ReadonlySet<ModelEvent>): void {
  for (const sink of history.sinks)
    for (const event of countsIn(history, sink, []).keys())
      if (!copied.has(event)) history.forgotten.add(event);
}

/** How often each event is in a sink; a line that is no event is a violation. */
export function countsIn(history: History, sink: SinkLife, violations: Violation[]): Map<ModelEvent, number> {
  const counts = new Map<ModelEvent, number>();
  for (const [path, bytes] of history.disk.files(sink.plan.folder)) {
    if (path.includes("/.tidemark/")) continue;
    const { lines, rest } = history.linesOf(bytes);
    if (rest !== "") violations.push({ rule: "exactly once", message: `${path} ends within a line` });
    for (const line of lines) {
      const shown = history.byText.get(line);
      if (shown === undefined)
        violations.push({
          rule: "exactly once",
          message: `${path} holds a line that the service never sent: ${line.slice(0, 100)}`,
        });
      else for (const event of shown) counts.set(event, (counts.get(event) ?? 0) + 1);
    }
  }
  return counts;
}
