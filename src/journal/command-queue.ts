import type { Clock } from "../core/clock.ts";
import type { State } from "./database.ts";

export interface ChangeRequest {
  readonly id: number;
  readonly kind: string;
  readonly body: unknown;
  /** An earlier process began to carry it out. */
  readonly wasStarted: boolean;
}

export interface RequestResult {
  readonly ok: boolean;
  readonly message: string;
}

const POLL_MS = 200;
const KEPT_MS = 86_400_000;

/** Requests of changing commands to the running process, which alone may change the state (R15). */
export function createRequests(db: State, clock: Clock) {
  const insert = db.prepare("INSERT INTO requests (kind, body, made_ms) VALUES (?, ?, ?)");
  const open = db.prepare(
    "SELECT id, kind, body, started_ms AS startedMs FROM requests WHERE done_ms IS NULL ORDER BY id",
  );
  const start = db.prepare("UPDATE requests SET started_ms = ? WHERE id = ?");
  const finish = db.prepare("UPDATE requests SET done_ms = ?, result = ? WHERE id = ?");
  const result = db.prepare("SELECT result FROM requests WHERE id = ? AND done_ms IS NOT NULL").pluck();
  const clean = db.prepare("DELETE FROM requests WHERE done_ms < ?");

  return {
    /** Stores a request and waits until the running process has carried it out. */
    async ask(kind: string, body: unknown, timeoutMs: number, signal: AbortSignal): Promise<RequestResult> {
      const { lastInsertRowid } = await db.change(() => insert.run(kind, JSON.stringify(body), clock.now()));
      const id = Number(lastInsertRowid);
      const untilMs = clock.now() + timeoutMs;
      while (clock.now() < untilMs) {
        const done = result.get(id) as string | undefined;
        if (done !== undefined) return JSON.parse(done) as RequestResult;
        await clock.sleep(POLL_MS, signal);
      }
      return { ok: true, message: "The running process has the request and will carry it out." };
    },
    open: () =>
      (open.all() as { id: number; kind: string; body: string; startedMs: number | null }[]).map(
        ({ id, kind, body, startedMs }): ChangeRequest => ({
          id,
          kind,
          body: JSON.parse(body) as unknown,
          wasStarted: startedMs !== null,
        }),
      ),
    async start(id: number): Promise<void> {
      await db.change(() => start.run(clock.now(), id));
    },
    finish: (id: number, outcome: RequestResult): Promise<void> =>
      db.change(() => {
        finish.run(clock.now(), JSON.stringify(outcome), id);
        clean.run(clock.now() - KEPT_MS);
      }),
  };
}
