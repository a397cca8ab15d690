import type { JournalEvent } from "../../src/core/event.ts";
import { IDENTITY_BYTES, preparePage } from "../../src/core/prepare-page.ts";
import { eventBytes, eventSize, eventTimeMs, FIELD, fieldText } from "../../src/core/scanner.ts";

export const FETCHED_AT_MS = Date.parse("2026-11-15T00:00:00Z");

/** An event as the journal hands it out: scanned and identified by the program's own code. */
export function journalEvent(event: string | object, overrides: Partial<JournalEvent> = {}): JournalEvent {
  const text = typeof event === "string" ? event : JSON.stringify(event);
  const page = preparePage(Buffer.from(`[${text}]`), { organizations: [], provider: "p" });
  const { scanned } = page;
  return {
    bytes: eventBytes(scanned, 0),
    size: eventSize(scanned, 0),
    account: "acme",
    organization: page.organizations[0] ?? null,
    provider: null,
    service: fieldText(scanned, 0, FIELD.service) ?? "",
    eventType: fieldText(scanned, 0, FIELD.eventType) ?? "",
    timestamp: fieldText(scanned, 0, FIELD.timestamp) ?? "",
    timestampMs: eventTimeMs(scanned, 0) ?? FETCHED_AT_MS,
    id: fieldText(scanned, 0, FIELD.id),
    correlationId: fieldText(scanned, 0, FIELD.correlationId),
    identity: page.identities.toString("hex", 0, IDENTITY_BYTES),
    fetchedAtMs: FETCHED_AT_MS,
    page: 7,
    index: 3,
    ...overrides,
  };
}
