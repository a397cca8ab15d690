import type { Clock } from "../../core/clock.ts";
import { PausedError } from "../../core/errors.ts";
import type { Answer, Outgoing, Requester } from "../../core/http/requester.ts";
import { formatDuration } from "../../core/time.ts";

/** A smaller difference is normal between machines, and a Date header has whole seconds. */
const SKEW_MS_MAX = 60_000;

/** A remark when this machine's clock and the destination's differ. */
export function skewRemarks(dateMs: number | undefined, nowMs: number): readonly string[] {
  const skewMs = dateMs === undefined ? 0 : nowMs - dateMs;
  if (Math.abs(skewMs) <= SKEW_MS_MAX) return [];
  const side = skewMs > 0 ? "ahead of" : "behind";
  return [`This machine's clock is ${formatDuration(Math.abs(skewMs))} ${side} the destination's: set it.`];
}

export interface Probe {
  readonly requester: Requester;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Requests that store nothing, in this order. */
  readonly requests: readonly ProbeRequest[];
}

export interface ProbeRequest extends Outgoing {
  /** The error that the answer means; undefined when the destination accepts us. */
  judge(answer: Answer): Error | undefined;
  /** Remarks on an answer that is accepted. */
  remark?(answer: Answer): readonly string[];
}

/** Sends the requests and closes the requester. A wrong clock is part of a refusal: signatures depend on it. */
export async function probeOver({ requester, clock, signal, requests }: Probe): Promise<readonly string[]> {
  const remarks = new Set<string>();
  try {
    for (const request of requests) {
      const answer = await requester.send(request, signal);
      const skew = skewRemarks(answer.dateMs, clock.now());
      const error = request.judge(answer);
      if (error instanceof PausedError && skew.length > 0)
        throw new PausedError(`${error.message} ${skew.join(" ")}`, error.remedy);
      if (error) throw error;
      for (const remark of [...skew, ...(request.remark?.(answer) ?? [])]) remarks.add(remark);
    }
    return [...remarks];
  } finally {
    await requester.close();
  }
}
