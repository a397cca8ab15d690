import type { JournalEvent } from "../../core/event.ts";
import { heldEvents } from "../../core/held-event.ts";
import type { Hit } from "../find/fetch.ts";
import type { InsightsAnswer } from "../insights/answer.ts";

export function json(value: unknown, events: number, status = 200): InsightsAnswer {
  const headers = { "Content-Type": "application/json; charset=utf-8" };
  return { status, headers, body: Buffer.from(JSON.stringify(value)), events };
}

export function eventOf(hit: Hit): JournalEvent {
  return heldEvents(hit.organization, [hit.bytes])[0]!;
}
