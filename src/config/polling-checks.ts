import type { z } from "zod";
import { durationMsOf, formatDuration } from "../core/time.ts";
import { scheduleProblem } from "../imports/schedule.ts";
import { looksLikeCron } from "../polling/config.ts";

/** Fields of the config that may have problems of their own. */
interface Fields {
  readonly polling?: unknown;
  readonly accounts?: unknown;
}

/** Checks of `polling` that need other parts of the program or of the config. */
export function checkPolling(config: Fields, context: z.core.$RefinementCtx<unknown>): void {
  possibleInterval(config, context);
  sweepsWithinRetention(config, context);
}

/** An expression that names no time would end the program when it is first used. */
function possibleInterval({ polling }: Fields, context: z.core.$RefinementCtx<unknown>): void {
  const { interval } = (polling ?? {}) as { interval?: unknown };
  if (typeof interval !== "string" || durationMsOf(interval) !== undefined || !looksLikeCron(interval))
    return;
  const problem = scheduleProblem(interval);
  if (problem === undefined) return;
  context.addIssue({
    code: "custom",
    path: ["polling", "interval"],
    message: `${problem}; or write a duration such as 30s`,
    input: interval,
  });
}

/** A sweep that is due after the service has forgotten the window would never be made. */
function sweepsWithinRetention(config: Fields, context: z.core.$RefinementCtx<unknown>): void {
  const { sweeps } = (config.polling ?? {}) as { sweeps?: unknown };
  const last: unknown = Array.isArray(sweeps) ? sweeps.at(-1) : undefined;
  if (typeof last !== "number" || !Array.isArray(config.accounts)) return;
  for (const [index, account] of config.accounts.entries()) {
    const retention = (account as { retention?: unknown } | null)?.retention;
    if (typeof retention !== "number" || last < retention) continue;
    context.addIssue({
      code: "custom",
      path: ["accounts", index, "retention"],
      message: `the last of "polling.sweeps" comes ${formatDuration(last)} after a window's end, and the service would have forgotten the window by then: make "retention" longer than that, or take that sweep out`,
      input: retention,
    });
  }
}
