import { ordinaryMemory } from "../../src/core/buffer-pool.ts";
import type { JournalEvent } from "../../src/core/event.ts";
import type { Journal, JournalReader, PageCommit } from "../../src/core/journal.ts";
import type { Position } from "../../src/core/position.ts";
import { preparePage } from "../../src/core/prepare-page.ts";

export const ORGANIZATION = "5f0c5f0c5f0c5f0c5f0c5f0c";
export const OTHER_ORGANIZATION = "6a1b6a1b6a1b6a1b6a1b6a1b";
export const FETCHED_MS = Date.parse("2026-03-14T15:00:00Z");
const FIRST_MS = Date.parse("2026-03-14T12:00:00Z");

export interface EventFields {
  readonly organization?: string | null;
  readonly service?: string;
  readonly event_type?: string;
  readonly timestamp?: string;
  readonly id?: string;
  readonly [more: string]: unknown;
}

/** The text of an event, with spacing that re-serialising would not keep; one second later for each number. */
export function eventText(number: number, fields: EventFields = {}): string {
  const event = {
    organization: ORGANIZATION,
    service: "sso",
    event_type: "login",
    timestamp: timeText(number),
    id: number.toString(16).padStart(24, "0"),
    number,
    ...fields,
  };
  return JSON.stringify(event).replace('{"', '{ "').replace(/}$/, "\n}");
}

export function timeMs(number: number): number {
  return FIRST_MS + number * 1000;
}

export function timeText(number: number): string {
  return new Date(timeMs(number)).toISOString().replace("Z", "456Z");
}

export function eventTexts(from: number, count: number, fields: EventFields = {}): string[] {
  return Array.from({ length: count }, (_, at) => eventText(from + at, fields));
}

/** A page of these events, as polling would commit it for one organization; `over` changes what is said of it. */
export function pageOf(
  events: readonly string[],
  over: Partial<Omit<PageCommit, "page">> & { readonly organizations?: readonly string[] } = {},
): PageCommit {
  const { organizations = [ORGANIZATION], ...rest } = over;
  const provider = over.provider ?? null;
  const fetchedAtMs = over.fetchedAtMs ?? FETCHED_MS;
  const bytes = Buffer.from(`[${events.join(",")}]`);
  return {
    account: "acme",
    provider,
    organization: provider === null && organizations.length === 1 ? organizations[0]! : null,
    page: preparePage(bytes, { organizations, provider }),
    lease: ordinaryMemory.adopt(bytes),
    fetchedAtMs,
    edge: [],
    lateBeforeMs: Number.NEGATIVE_INFINITY,
    reader: null,
    change: () => ({}),
    ...rest,
  };
}

/** Everything a reader gets after a position, page by page. */
export async function readEvents(
  reader: JournalReader,
  after: Position = reader.position,
): Promise<JournalEvent[]> {
  const events: JournalEvent[] = [];
  let at = after;
  for (let page = await reader.read(at); page !== null; page = await reader.read(at)) {
    for (let index = page.first; index < page.first + page.count; index++) events.push(page.event(index));
    at = page.after(page.first + page.count - 1);
  }
  return events;
}

export async function readTexts(reader: JournalReader, after?: Position): Promise<string[]> {
  return (await readEvents(reader, after)).map((event) => Buffer.from(event.bytes).toString());
}

/** Everything that the journal holds, by a reader made for the look. */
export async function textsOf(journal: Journal, reader = "look"): Promise<string[]> {
  const opened = await journal.reader(reader);
  return readTexts(opened, { journal: journal.id, page: 0, event: 0, hash: "" });
}
