import { decodeBody } from "../../core/page-body.ts";
import { eventTimeMs, FIELD, fieldText } from "../../core/scanner.ts";
import type { RecentView } from "../../core/view/events.ts";
import type { State } from "../database.ts";

/** A page of history may be large, and its events pass too fast to be read one by one. */
const PAGE_BYTES_MAX = 4_000_000;
const PAGES_MAX = 8;

interface PageRow {
  readonly number: number;
  readonly account: string;
  readonly organization: string | null;
  readonly fetchedMs: number;
  readonly events: number;
  readonly bytes: number;
  readonly body: Buffer;
}

/** The newest events' few fields; contents are left where they are. */
export function createRecent(db: State) {
  const endPage = db.prepare("SELECT COALESCE(MAX(number), 0) FROM pages").pluck();
  const newest = db.prepare(
    `SELECT p.number, p.account, p.organization, p.fetched_ms AS fetchedMs, p.events, p.bytes, b.body
     FROM pages p JOIN bodies b ON b.page = p.number
     WHERE p.number > ? AND p.reader IS NULL AND p.bytes <= ${PAGE_BYTES_MAX} ORDER BY p.number DESC LIMIT ${PAGES_MAX}`,
  );
  const arrived = db
    .prepare("SELECT COALESCE(SUM(events), 0) FROM pages WHERE number > ? AND number <= ? AND reader IS NULL")
    .pluck();
  const nameOf = db.prepare("SELECT name FROM organizations WHERE account = ? AND id = ?").pluck();

  return (afterPage: number, limit: number): RecentView => {
    const end = endPage.get() as number;
    const events: RecentView["events"][number][] = [];
    if (end > afterPage) {
      for (const row of newest.iterate(Math.max(afterPage, end - 100)) as Iterable<PageRow>) {
        events.unshift(...lastOf(row, limit - events.length));
        if (events.length >= limit) break;
      }
    }
    // Delivered pages may be gone already. What was there before the first look is not counted.
    const all = afterPage === 0 ? events.length : (arrived.get(afterPage, end) as number);
    return { endPage: end, more: all - events.length, events: events.map(named) };
  };

  function lastOf(row: PageRow, limit: number) {
    const scanned = decodeBody(row.body);
    const first = Math.max(0, row.events - limit);
    return Array.from({ length: row.events - first }, (_, at) => {
      const index = first + at;
      return {
        page: row.number,
        index,
        account: row.account,
        organization: fieldText(scanned, index, FIELD.organization)?.toLowerCase() || row.organization,
        name: null as string | null,
        service: fieldText(scanned, index, FIELD.service) ?? "",
        eventType: fieldText(scanned, index, FIELD.eventType) ?? "",
        timestampMs: eventTimeMs(scanned, index) ?? row.fetchedMs,
        fetchedMs: row.fetchedMs,
      };
    });
  }

  function named(event: RecentView["events"][number]): RecentView["events"][number] {
    if (event.organization === null) return event;
    return { ...event, name: (nameOf.get(event.account, event.organization) as string | undefined) ?? null };
  }
}
