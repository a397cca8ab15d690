import type { Pass, Window } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import { isUnordered } from "./order.ts";
import { restarted } from "./pass.ts";

/**
 * The pass of a window that replaces another one, or a part of it. For all readers there is none: the time is read
 * anew with dedupe (R1). Pages for one reader are not compared with held events (R21), so there the pass goes on from
 * its place, and its edge recognizes the events of that time.
 */
export function passTakenOver(
  context: PollContext,
  { reader, pass }: Pick<Window, "reader" | "pass">,
  endMs: number,
): Pass | null {
  if (reader === null || pass === null) return null;
  const known = isUnordered(context) ? { ...pass, isUnordered: true } : pass;
  return {
    ...restarted(known, context.settings.pageSize),
    endMs,
    suspects: undefined,
    resumeMs: undefined,
  };
}
