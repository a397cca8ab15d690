import { isRepeatable } from "../core/actions.ts";
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
  /** The command that left it has ended without an answer, and nobody began to carry it out. */
  readonly isExpired: boolean;
}

export type RequestResult = LaneOutcome;

/** A request that came from another machine of the cluster. */
export interface ForeignRequest {
  readonly origin: string;
  readonly kind: string;
  readonly body: unknown;
}

const POLL_MS = 200;
/** How often the asker looks whether the process that it asks still runs. */
const LOOK_MS = 1000;
const KEPT_MS = 86_400_000;
/** Longer than any asker waits: a request that is older was left by a command that was killed. */
const EXPIRED_MS = 120_000;
/** The row of `meta` with the offset up to which requests of other machines were taken (C3). */
const NEXT = "requests_next";

/** Requests of changing commands to the running process, which alone may change the state (R15). */
export function createRequests(db: State, clock: Clock) {
  const withdraw = db.prepare("DELETE FROM requests WHERE id = ? AND started_ms IS NULL AND done_ms IS NULL");
  const insert = db.prepare("INSERT INTO requests (kind, body, made_ms) VALUES (?, ?, ?)");
  const open = db.prepare(
    "SELECT id, origin, kind, body, made_ms AS madeMs, started_ms AS startedMs FROM requests WHERE done_ms IS NULL ORDER BY id",
  );
  const start = db.prepare("UPDATE requests SET started_ms = ? WHERE id = ?");
  const finish = db.prepare("UPDATE requests SET done_ms = ?, result = ? WHERE id = ?");
  const result = db.prepare("SELECT result FROM requests WHERE id = ? AND done_ms IS NOT NULL").pluck();
  const isStarted = db.prepare("SELECT 1 FROM requests WHERE id = ? AND started_ms IS NOT NULL").pluck();
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
    /**
     * Stores a request and waits until the running process has carried it out, without a limit once it has begun. A
     * request that it did not begin is withdrawn at the end of the wait, so it is never carried out behind the asker's
     * back. undefined: no process is running any more, and the request is withdrawn.
     */
    async ask(
      kind: string,
      body: unknown,
      running: { readonly timeoutMs: number; isRunning(): boolean },
      signal: AbortSignal,
    ): Promise<RequestResult | undefined> {
      const { lastInsertRowid } = await db.change(() => insert.run(kind, JSON.stringify(body), clock.now()));
      const id = Number(lastInsertRowid);
      const isWithdrawn = async () => (await db.change(() => withdraw.run(id))).changes === 1;
      const untilMs = clock.now() + running.timeoutMs;
      let lookMs = clock.now() + LOOK_MS;
      try {
        while (clock.now() < untilMs || (isStarted.get(id) !== undefined && running.isRunning())) {
          const done = result.get(id) as string | undefined;
          if (done !== undefined) return JSON.parse(done) as RequestResult;
          if (clock.now() >= lookMs) {
            if (!running.isRunning() && (await isWithdrawn())) return undefined;
            lookMs = clock.now() + LOOK_MS;
          }
          await clock.sleep(POLL_MS, signal);
        }
      } catch (error) {
        if (signal.aborted) await isWithdrawn();
        throw error;
      }
      if (await isWithdrawn()) return { ok: false, message: NOT_TAKEN };
      const done = result.get(id) as string | undefined;
      if (done !== undefined) return JSON.parse(done) as RequestResult;
      return { ok: false, message: isRepeatable(kind, body) ? ENDED : INTERRUPTED };
    },
    open: () =>
      (
        open.all() as {
          id: number;
          origin: string | null;
          kind: string;
          body: string;
          madeMs: number;
          startedMs: number | null;
        }[]
      ).map(
        ({ id, origin, kind, body, madeMs, startedMs }): ChangeRequest => ({
          id,
          origin,
          kind,
          body: JSON.parse(body) as unknown,
          wasStarted: startedMs !== null,
          isExpired: origin === null && startedMs === null && clock.now() - madeMs > EXPIRED_MS,
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

const NOT_TAKEN =
  "Nothing was changed: the process that works with the state file did not take the request in time. `run --once` and other commands take none; ask again when they have ended. If it is `tidemark run`, it is very busy; ask again.";
const ENDED =
  "The process ended while it carried this out, so a part of it may be left. The next `tidemark run` goes on with it, and its log says how that ended. Or ask again.";
export const INTERRUPTED =
  "The process ended while it carried this out, so it may be done or not. It is not repeated, because that could do it twice. Check it, and ask again if it was not done.";
