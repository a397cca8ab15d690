import { hash } from "node:crypto";
import type { JournalEvent } from "../../src/core/event.ts";
import type { Format } from "../../src/core/format.ts";
import type { Position } from "../../src/core/position.ts";
import type { Batch, Sink } from "../../src/core/sink.ts";

export const TEST_JOURNAL = "0b5e7a52-9c1d-4a6e-8f30-1d2c3b4a5f60";
const PAGE_EVENTS = 100;
const ORGANIZATIONS = ["5f0c5f0c5f0c5f0c5f0c5f0c", "6a1b6a1b6a1b6a1b6a1b6a1b", "7c2d7c2d7c2d7c2d7c2d7c2d"];
const SERVICES = ["directory", "sso", "radius", "ldap"];

/** The formats that sinks are tested with: the event's own bytes, and a line of text that is no JSON. */
export const rawFormat: Format = {
  name: "raw",
  mediaType: "application/json",
  encode: (event) => event.bytes,
};
export const cefFormat: Format = {
  name: "cef",
  mediaType: "text/plain",
  encode: (event) =>
    `CEF:0|Example|Directory|1|${event.eventType}|${event.eventType}|3|externalId=${event.id}`,
};

/** A plausible event. Its bytes hold the overridden fields too, unless `bytes` is overridden itself. */
export function makeEvent(overrides: Partial<JournalEvent> = {}): JournalEvent {
  const timestamp = overrides.timestamp ?? "2026-03-14T15:09:26.535897Z";
  const fields = {
    account: "acme",
    organization: ORGANIZATIONS[0]!,
    provider: null,
    service: "directory",
    eventType: "user_update",
    timestamp,
    timestampMs: Date.parse(timestamp),
    id: "65f3121600000000000000aa",
    correlationId: undefined,
    fetchedAtMs: Date.parse(timestamp) + 60_000,
    page: 1,
    index: 0,
    ...overrides,
  };
  const bytes = overrides.bytes ?? bytesOf(fields);
  const identity = hash(
    "sha256",
    [fields.organization, fields.service, fields.eventType, fields.timestamp, fields.id].join("\n"),
    "hex",
  ).slice(0, 32);
  return { identity, ...fields, bytes, size: bytes.length };
}

/** `count` different events in journal order, the same whenever they are made; `from` is the first one's number. */
export function makeEvents(count: number, from = 0, overrides: Partial<JournalEvent> = {}): JournalEvent[] {
  return Array.from({ length: count }, (_, at) => {
    const number = from + at;
    const timestampMs = Date.parse("2026-03-14T23:50:00Z") + number * 1237;
    return makeEvent({
      organization: ORGANIZATIONS[number % ORGANIZATIONS.length]!,
      service: SERVICES[number % SERVICES.length]!,
      timestamp: new Date(timestampMs).toISOString().replace("Z", "123Z"),
      timestampMs,
      id: number.toString(16).padStart(24, "0"),
      page: 1 + Math.floor(number / PAGE_EVENTS),
      index: number % PAGE_EVENTS,
      ...overrides,
    });
  });
}

/** A batch of events in journal order, encoded as delivery does it; it begins right before its first event. */
export function makeBatch(
  sink: Pick<Sink, "encode" | "framed">,
  events: readonly JournalEvent[],
  from: Position = positionBefore(events[0]!),
  format: Format = rawFormat,
): Batch {
  const encode =
    sink.encode?.bind(sink) ??
    ((event: JournalEvent) => (sink.framed && format.encodeFramed?.(event)) || format.encode(event));
  const records = events.map((event) => {
    const body = encode(event);
    // The next call of `encode` may overwrite it.
    const bytes = Buffer.from(body as Uint8Array);
    return { event, body: bytes, size: bytes.length };
  });
  return { records, from, to: positionAfter(events.at(-1)!) };
}

export function positionBefore(event: JournalEvent): Position {
  return { journal: TEST_JOURNAL, page: event.page, event: event.index, hash: pageHash(event.page) };
}

export function positionAfter(event: JournalEvent): Position {
  return { journal: TEST_JOURNAL, page: event.page, event: event.index + 1, hash: pageHash(event.page) };
}

function pageHash(page: number): string {
  return hash("sha256", `page ${page}`, "hex").slice(0, 32);
}

/** Unusual spacing, escapes and characters outside ASCII, so that a re-serialised body is not equal. */
function bytesOf(event: Omit<JournalEvent, "bytes" | "size" | "identity">): Uint8Array {
  const text = `{"id": ${JSON.stringify(event.id ?? null)}, "organization":${JSON.stringify(event.organization)},"service":"${event.service}","event_type":"${event.eventType}","timestamp":"${event.timestamp}","changes":[{"field":"displayname","to":"Zoë \\u00e9 日本 \\/ \\n=|]"}],"serial":1e2,"place":${event.page * PAGE_EVENTS + event.index}}`;
  return Buffer.from(text);
}
