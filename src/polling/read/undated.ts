import { type PreparedPage, UNDATED_MS } from "../../core/prepare-page.ts";
import { FIELD, fieldText } from "../../core/scanner.ts";
import type { MissingEvent } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import type { TimeStretch } from "../plan/sweep-times.ts";
import { identityBytesAt } from "./counts.ts";
import { doubtfulAt } from "./missing-events.ts";

/**
 * Events without a readable time have no place of their own (R35). One that is not held is looked for between the
 * events around it.
 */
export function createUndated({ journal }: PollContext, stretch: TimeStretch, missing: MissingEvent[]) {
  let lastMs = stretch.fromMs;
  /** Set while an event without a time is missing and none with a time has followed yet. */
  let fromMs: number | undefined;
  const end = (doubtful: TimeStretch[], toMs: number) => {
    const endMs = Math.min(stretch.toMs, toMs);
    // In answers that do not rise in time it may be anywhere.
    if (fromMs !== undefined) doubtful.push(fromMs < endMs ? { fromMs, toMs: endMs } : stretch);
    fromMs = undefined;
  };
  return {
    async look(page: PreparedPage, doubtful: TimeStretch[]): Promise<void> {
      const held =
        page.undated === 0 ? undefined : await journal.held(page.organizations, UNDATED_MS, UNDATED_MS + 1);
      for (let index = 0; index < page.scanned.count; index++) {
        const timeMs = page.timesMs[index]!;
        if (timeMs !== UNDATED_MS) {
          end(doubtful, timeMs + 1);
          lastMs = Math.max(lastMs, timeMs);
        } else if (!held?.has(identityBytesAt(page, index))) {
          fromMs ??= lastMs;
          if (fieldText(page.scanned, index, FIELD.id) !== undefined)
            missing.push(doubtfulAt(page, index, lastMs));
        }
      }
    },
    end: (doubtful: TimeStretch[]) => end(doubtful, stretch.toMs),
  };
}
