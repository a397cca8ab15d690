import type { Position } from "../core/position.ts";
import type { Connection } from "./database.ts";

/** Events of one account, with the time in which they happened as far as it is known. */
export interface EventSpan {
  readonly account: string;
  readonly events: number;
  readonly fromMs: number | null;
  readonly toMs: number | null;
}

/** What a reader leaves out that goes on at `to`, by account. */
export function eventsBetween(db: Connection, reader: string, from: Position, to: Position): EventSpan[] {
  const rows = db
    .prepare(
      `SELECT account, SUM(events - CASE WHEN number = @page THEN @event ELSE 0 END) AS events,
         MIN(first) AS fromMs, MAX(last) AS toMs
       FROM (
         SELECT p.number, p.account, p.events, MIN(i.first_ms) AS first, MAX(i.last_ms) AS last
         FROM pages p LEFT JOIN identities i ON i.page = p.number AND i.first_ms > 0
         WHERE p.number >= @page AND p.number <= @to AND (p.reader IS NULL OR p.reader = @reader)
           AND p.number >= (SELECT COALESCE(MIN(page), 0) FROM bodies)
           AND NOT (p.number = @page AND p.events <= @event)
         GROUP BY p.number
       ) GROUP BY account ORDER BY account`,
    )
    .all({ page: from.page, event: from.event, to: to.page, reader });
  return rows as EventSpan[];
}

/** Has these events read again for one sink. */
export function refetchCommand({ account, fromMs, toMs }: Omit<EventSpan, "events">, sink: string): string {
  const time = (ms: number | null) => (ms === null ? "TIME" : new Date(ms).toISOString());
  const until = toMs === null ? "" : ` --until ${time(toMs + 1)}`;
  return `tidemark backfill --account ${account} --sink ${sink} --since ${time(fromMs)}${until}`;
}

/** What a sink left out at a person's wish, and how it gets it; empty when that is nothing. */
export function leftOutText(sink: string, left: readonly EventSpan[]): string {
  const lines = left.map((span) => {
    const events = `${span.events.toLocaleString("en")} ${span.events === 1 ? "event" : "events"}`;
    const time =
      span.fromMs === null || span.toMs === null
        ? "at times that are not known"
        : `from ${new Date(span.fromMs).toISOString()} to ${new Date(span.toMs).toISOString()}`;
    return `It leaves out ${events} of the account ${span.account}, ${time}: \`${refetchCommand(span, sink)}\` has them read again, as long as the service has them.`;
  });
  return lines.length === 0 ? "" : [...lines, TWICE].join(" ");
}

/** A backfill for one sink does not know what the sink has. */
const TWICE = "Other events of that time come to the sink once more.";
