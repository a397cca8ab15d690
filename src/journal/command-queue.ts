import type { Clock } from "../core/clock.ts";
import type { LaneOutcome } from "../core/lane-requests.ts";
import type { State } from "./database.ts";

export interface ChangeRequest {
  readonly id: number;
  /** The id that it came with from another machine; null: a command of this machine left it. */
  readonly origin: string | null;
  readonly kind: string;
  readonly body: unknown;
  /** An earlier process began to carry it out. */
  readonly wasStarted: boolean;
}

export type RequestResult = LaneOutcome;

/** A request that came from another machine of the cluster. */
export interface ForeignRequest {
  readonly origin: string;
  readonly kind: string;
  readonly body: unknown;
}

const POLL_MS = 200;
const KEPT_MS = 86_400_000;
/** The row of `meta` with the offset up to which requests of other machines were taken (C3). */
const NEXT = "requests_next";

/** Requests of changing commands to the running process, which alone may change the state (R15). */
export function createRequests(db: State, clock: Clock) {
  const insert = db.prepare("INSERT INTO requests (kind, body, made_ms) VALUES (?, ?, ?)");
  const open = db.prepare(
    "SELECT id, origin, kind, body, started_ms AS startedMs FROM requests WHERE done_ms IS NULL ORDER BY id",
  );
  const start = db.prepare("UPDATE requests SET started_ms = ? WHERE id = ?");
  const finish = db.prepare("UPDATE requests SET done_ms = ?, result = ? WHERE id = ?");
  const result = db.prepare("SELECT result FROM requests WHERE id = ? AND done_ms IS NOT NULL").pluck();
  const clean = db.prepare("DELETE FROM requests WHERE done_ms < ?");
  const insertForeign = db.prepare(
    "INSERT OR IGNORE INTO requests (origin, kind, body, made_ms) VALUES (?, ?, ?, ?)",
  );
  const finished = db.prepare(
    "SELECT origin, result FROM requests WHERE origin IS NOT NULL AND done_ms >= ?",
  );
  const next = db.prepare("SELECT value FROM meta WHERE key = ?").pluck();
  const setNext = db.prepare("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)");

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
      (
        open.all() as {
          id: number;
          origin: string | null;
          kind: string;
          body: string;
          startedMs: number | null;
        }[]
      ).map(
        ({ id, origin, kind, body, startedMs }): ChangeRequest => ({
          id,
          origin,
          kind,
          body: JSON.parse(body) as unknown,
          wasStarted: startedMs !== null,
        }),
      ),
    /** Stores requests of other machines and how far they were read, in one change (C3). */
    take: (requests: readonly ForeignRequest[], nextOffset: number): Promise<void> =>
      db.change(() => {
        for (const { origin, kind, body } of requests)
          insertForeign.run(origin, kind, JSON.stringify(body), clock.now());
        setNext.run(NEXT, String(nextOffset));
      }),
    /** The offset of the next request of another machine. */
    next: (): number => Number(next.get(NEXT) ?? 0),
    /** Results of requests of other machines since a time: an owner that was killed may not have sent them. */
    finishedSince: (
      sinceMs: number,
    ): readonly { readonly origin: string; readonly result: RequestResult }[] =>
      (finished.all(sinceMs) as { origin: string; result: string }[]).map(({ origin, result: text }) => ({
        origin,
        result: JSON.parse(text) as RequestResult,
      })),
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
