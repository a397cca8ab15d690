import type { Stream } from "../../core/window.ts";
import type { PollContext } from "../context.ts";

/** Longer than a failed window waits, so that a stream which stays bad stays known as that. */
const TROUBLED_MS = 600_000;

/** The bodies of this stream stall or are nonsense while others are served: it shares one place with all such (R32). */
export function markTroubled({ learned, clock }: PollContext, { id }: Stream): void {
  learned.troubledUntilMs.set(id, clock.now() + TROUBLED_MS);
}

/** A page of the stream was served. */
export function noteServed({ learned }: PollContext, { id, organizations }: Stream): void {
  learned.troubledUntilMs.delete(id);
  for (const organization of organizations)
    if (learned.suspectUntilMs.has(organization)) learned.servedSuspects.add(organization);
}

/** The name of a troubled stream for the gate; undefined: it is not known as one. */
export function troubledName({ learned, clock, account }: PollContext, { id }: Stream): string | undefined {
  const leftMs = (learned.troubledUntilMs.get(id) ?? 0) - clock.now();
  return leftMs > 0 && leftMs <= TROUBLED_MS ? `${account}/${id}` : undefined;
}
