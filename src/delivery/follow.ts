import type { JournalEvent } from "../core/event.ts";
import type { JournalReader } from "../core/journal.ts";
import type { Position } from "../core/position.ts";
import type { Step } from "../core/step.ts";

const EVENTS_MAX = 2000;

/**
 * A reader of the journal inside the program. `apply` gets every event, in journal order, at least once,
 * and makes the position durable itself when that must happen together with its own work; else `commit` does.
 */
export function createFollower(
  reader: JournalReader,
  apply: (events: readonly JournalEvent[], to: Position) => Promise<void>,
): Step {
  let at = reader.position;
  return async () => {
    const page = await reader.read(at);
    if (page === null) return "idle";
    const count = Math.min(page.count, EVENTS_MAX);
    const events = Array.from({ length: count }, (_, index) => page.event(page.first + index));
    const to = page.after(page.first + count - 1);
    await apply(events, to);
    at = to;
    return "again";
  };
}
