import type { Roster, RosterEntry } from "../core/roster.ts";
import type { State } from "./database.ts";

const SMOOTHING = 0.3;

export function createRoster(db: State): Roster {
  const list = db.prepare(
    `SELECT account, id, name, state, reason, next_ms AS nextMs, last_event_ms AS lastEventMs, events, traffic
     FROM organizations WHERE account = ? ORDER BY id`,
  );
  const upsert = db.prepare(
    `INSERT INTO organizations (account, id, name, state, first_seen_ms, last_seen_ms) VALUES (@account, @id, @name, 'active', @nowMs, @nowMs)
     ON CONFLICT (account, id) DO UPDATE SET name = excluded.name, last_seen_ms = excluded.last_seen_ms,
       reason = CASE state WHEN 'vanished' THEN NULL ELSE reason END,
       state = CASE state WHEN 'vanished' THEN 'active' ELSE state END`,
  );
  const setState = db.prepare(
    "UPDATE organizations SET state = ?, reason = ?, next_ms = ? WHERE account = ? AND id = ?",
  );
  const setTraffic = db.prepare("UPDATE organizations SET traffic = ? WHERE account = ? AND id = ?");
  const sinceSmoothing = new Map<string, number>();

  return {
    list: (account) => list.all(account) as RosterEntry[],
    seen(account, organizations, nowMs) {
      return db.change(() => {
        for (const { id, name } of organizations) upsert.run({ account, id: id.toLowerCase(), name, nowMs });
      });
    },
    setState(account, ids, state, reason, nextMs) {
      return db.change(() => {
        for (const id of ids) setState.run(state, reason, nextMs, account, id);
      });
    },
    addEvents(account, byOrganization, live) {
      if (!live) return;
      for (const [id, { events }] of byOrganization) {
        if (id !== null)
          sinceSmoothing.set(`${account} ${id}`, (sinceSmoothing.get(`${account} ${id}`) ?? 0) + events);
      }
    },
    smooth: (account, hours) => db.change(() => smooth(account, hours)),
  };

  function smooth(account: string, hours: number): void {
    for (const entry of list.all(account) as RosterEntry[]) {
      const added = (sinceSmoothing.get(`${account} ${entry.id}`) ?? 0) / hours;
      if (added === 0 && entry.traffic < 0.01) continue;
      setTraffic.run(entry.traffic + SMOOTHING * (added - entry.traffic), account, entry.id);
      sinceSmoothing.delete(`${account} ${entry.id}`);
    }
  }
}

/** Whether any account has seen this organization. */
export function knowsOrganization(db: State, id: string): boolean {
  return db.prepare("SELECT 1 FROM organizations WHERE id = ?").pluck().get(id) !== undefined;
}
