import type { ModelEvent } from "./events.ts";

/** A broken promise. */
export interface Violation {
  readonly rule: "exactly once" | "delivered" | "silent loss" | "ledger" | "health" | "bounds" | "program";
  readonly message: string;
}

export function timeText(ms: number): string {
  return new Date(ms).toISOString().slice(0, 19);
}

export function nameOf(event: ModelEvent): string {
  const odd = event.odd === null ? "" : ` (${event.odd})`;
  return `event ${event.number}${odd} of organization ${event.organization} at ${timeText(event.timeMs)}, shown ${timeText(event.shownMs)},`;
}
