import type { Alarm } from "../../core/alarms.ts";
import type { State } from "../database.ts";

interface ForeignRow {
  readonly account: string;
  readonly events: number;
  readonly firstMs: number;
  readonly lastMs: number;
}

/**
 * Alarms about stored events of organizations that were not asked for (R7). They come from the rows, so that they
 * are named after the process that raised the alarm has ended.
 */
export function createForeignAlarms(db: State) {
  const rows = db.prepare(
    `SELECT account, COUNT(*) AS events, MIN(seen_ms) AS firstMs, MAX(seen_ms) AS lastMs FROM unattributed
     WHERE reason IS NULL GROUP BY account ORDER BY account`,
  );
  return (raised: readonly Alarm[]): Alarm[] => {
    const isRaised = (account: string) =>
      raised.some(
        ({ kind, severity, subject }) =>
          kind === "foreign_events" && severity === "critical" && subject.startsWith(`${account}/`),
      );
    const kept = (rows.all() as ForeignRow[]).filter(({ account }) => !isRaised(account));
    return kept.map(({ account, events, firstMs, lastMs }) => ({
      kind: "foreign_events",
      subject: account,
      message: `${events === 1 ? "One event" : `${events} events`} of organizations that were not asked for ${events === 1 ? "is" : "are"} kept apart in the state file and not delivered. Last seen ${new Date(lastMs).toISOString()}.`,
      remedy:
        "Compare the organizations' ids in the config with the service's; ask the vendor why a query for one organization answers with another's events.",
      severity: "critical",
      sinceMs: firstMs,
    }));
  };
}
