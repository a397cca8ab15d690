import type { Violation } from "./findings.ts";
import { type Plan, sourcesOf } from "./plan.ts";

const STATE_BYTES_MAX = 60_000_000;
const STEPS_MAX = 400_000;

/** Requests, the state file and the work done stay in proportion to the life. */
export function judgeBounds(
  plan: Plan,
  facts: { steps: number; requests: number; stateBytes: number; events: number; livedMs: number },
): Violation[] {
  const found: Violation[] = [];
  const { steps, requests, stateBytes, events, livedMs } = facts;
  const limits = requestsMax(plan, livedMs, events);
  if (requests > limits)
    found.push({ rule: "bounds", message: `${requests} requests where ${Math.round(limits)} are enough` });
  if (stateBytes > STATE_BYTES_MAX)
    found.push({ rule: "bounds", message: `the state file has ${stateBytes} bytes for ${events} events` });
  if (steps > STEPS_MAX)
    found.push({ rule: "bounds", message: `${steps} steps: something wakes without end` });
  return found;
}

/** Polls, sweeps, retries and probes for each organization with every tick, and every page several times over. */
function requestsMax(plan: Plan, livedMs: number, events: number): number {
  const pageEvents = Math.min(plan.settings.pageSize, plan.service.cap);
  const eachTick = 12 + 12 * sourcesOf(plan).length;
  const usual = 500 + (livedMs / plan.tickMs) * eachTick + (events / pageEvents) * 12;
  return usual + plan.faults.length * 1000 + asAskedFor(plan);
}

/** A service that asks for a pause of a second, for hours, is asked again every second. */
function asAskedFor({ faults }: Plan): number {
  return faults.reduce((sum, fault) => {
    if (fault.kind !== "service" || fault.effect.type !== "throttle") return sum;
    const { retryAfterS } = fault.effect;
    return retryAfterS === null ? sum : sum + (fault.toMs - fault.fromMs) / (1000 * Math.max(1, retryAfterS));
  }, 0);
}
