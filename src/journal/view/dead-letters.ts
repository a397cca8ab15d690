import type {
  DeadLetterBodyView,
  DeadLetterGroupView,
  DeadLettersQuery,
  DeadLettersView,
  DeadLetterView,
} from "../../core/view/dead-letters.ts";
import type { State } from "../database.ts";
import { createDeadLetters, groupIdOf, groupsOf } from "../dead-letters.ts";

const COLUMNS = `id, reader AS sink, reason, stored_ms AS storedMs, account, organization, provider, service,
  event_type AS eventType, timestamp, length(bytes) AS bytes, answer, reason_group AS reasonGroup`;
const GROUPS_MAX = 100;

type Row = Omit<DeadLetterView, "group"> & { readonly reasonGroup: string };

export function createDeadLettersView(db: State, lane?: number) {
  const letters = createDeadLetters(db, lane);
  const counts = db.prepare("SELECT reader, COUNT(*) FROM dead_letters GROUP BY reader").raw();
  const list = db.prepare(
    `SELECT ${COLUMNS} FROM dead_letters
     WHERE (@sink IS NULL OR reader = @sink) AND (@reason IS NULL OR reason_group = @reason) AND id < @before
     ORDER BY id DESC LIMIT @limit`,
  );
  const one = db.prepare(`SELECT ${COLUMNS}, bytes AS body FROM dead_letters WHERE id = ?`);

  function lettersOf({ sink, before, limit }: DeadLettersQuery, group: DeadLetterGroupView | undefined) {
    const rows = list.all({
      sink: group?.sink ?? sink ?? null,
      reason: group?.reason ?? null,
      limit,
      before: before ?? Number.MAX_SAFE_INTEGER,
    }) as Row[];
    return rows.map(viewOf);
  }

  return {
    counts: () => new Map(counts.all() as [string, number][]),
    list(query: DeadLettersQuery): DeadLettersView {
      const groups = groupsOf(db).filter(({ sink }) => query.sink === undefined || sink === query.sink);
      const group = groups.find(({ id }) => id === query.group);
      if (query.group !== undefined && group === undefined) return { total: 0, groups: [], letters: [] };
      const shown = group === undefined ? groups : [group];
      return {
        total: shown.reduce((sum, { count }) => sum + count, 0),
        groups: shown.slice(0, GROUPS_MAX),
        letters: lettersOf(query, group),
      };
    },
    one(id: number): DeadLetterBodyView | undefined {
      letters.refuseDamaged({ ids: [id] });
      const row = one.get(id) as (Row & { readonly body: Buffer }) | undefined;
      return row && { ...viewOf(row), body: row.body.toString("utf8") };
    },
  };
}

function viewOf<Some extends Row>({ reasonGroup, ...row }: Some) {
  return { ...row, group: groupIdOf(row.sink, reasonGroup) };
}
