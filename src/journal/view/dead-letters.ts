import type {
  DeadLetterBodyView,
  DeadLettersQuery,
  DeadLettersView,
  DeadLetterView,
} from "../../core/view.ts";
import type { State } from "../database.ts";

const COLUMNS = `id, reader AS sink, reason, stored_ms AS storedMs, account, organization, provider, service,
  event_type AS eventType, timestamp, length(bytes) AS bytes`;

export function createDeadLettersView(db: State) {
  const counts = db.prepare("SELECT reader, COUNT(*) FROM dead_letters GROUP BY reader").raw();
  const list = db.prepare(
    `SELECT ${COLUMNS} FROM dead_letters
     WHERE (@sink IS NULL OR reader = @sink) AND id < @before ORDER BY id DESC LIMIT @limit`,
  );
  const one = db.prepare(`SELECT ${COLUMNS}, bytes AS body FROM dead_letters WHERE id = ?`);
  const bySink = () => new Map(counts.all() as [string, number][]);

  return {
    counts: bySink,
    list({ sink, before, limit }: DeadLettersQuery): DeadLettersView {
      const all = bySink();
      return {
        total:
          sink === undefined
            ? [...all.values()].reduce((sum, count) => sum + count, 0)
            : (all.get(sink) ?? 0),
        letters: list.all({
          ...{ sink: sink ?? null, limit },
          before: before ?? Number.MAX_SAFE_INTEGER,
        }) as DeadLetterView[],
      };
    },
    one(id: number): DeadLetterBodyView | undefined {
      const row = one.get(id) as (DeadLetterView & { readonly body: Buffer }) | undefined;
      return row && { ...row, body: row.body.toString("utf8") };
    },
  };
}
