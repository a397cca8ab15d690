import { Problem } from "../http/problem.ts";
import { findApplication, type Outbound, outboundOf } from "./applications.ts";
import { bindings } from "./bindings.ts";
import { createScim, ScimError } from "./scim.ts";
import type { User } from "./user.ts";
import type { World } from "./world.ts";

/**
 * Outbound SCIM 2.0. For each pair of application and user the wanted state is compared with what was sent: bound,
 * activated and not suspended means present and active; anything else means absent or deactivated. STAGED users stay
 * bound and are skipped. Calls are real HTTP, one at a time per pair, tried again on the simulator's clock.
 */
export interface Provisioning {
  userChanged(user: string): void;
  applicationChanged(application: string, organization: string): void;
  /** Resolves when nothing is under way or waiting for another try. */
  idle(): Promise<void>;
  close(): Promise<void>;
}

interface Pair {
  readonly application: string;
  readonly organization: string;
  readonly user: string;
}

interface Task extends Pair {
  readonly attempt: number;
}

/** The last state of a user that was sent to the endpoint. */
interface Sent {
  readonly remote: string;
  readonly active: 0 | 1;
  readonly sent: string;
  readonly endpoint: string;
}

const attemptsMax = 5;
const concurrencyMax = 4;

export function createProvisioning(world: World): Provisioning {
  const { clock } = world;
  const stop = new AbortController();
  const reconcile = createReconcile(world, stop.signal);
  const bound = bindings(world.db);
  const queue = new Map<string, Task>();
  const running = new Set<string>();
  const waiting = new Set<string>();
  let idleWaiters: (() => void)[] = [];

  function enqueue(task: Task): void {
    if (stop.signal.aborted) return;
    queue.set(keyOf(task), task);
    setImmediate(pump);
  }

  function pump(): void {
    for (const [key, task] of queue) {
      if (running.size >= concurrencyMax || stop.signal.aborted) break;
      if (running.has(key)) continue;
      queue.delete(key);
      running.add(key);
      void work(key, task);
    }
    if (running.size > 0 || queue.size > 0 || waiting.size > 0) return;
    for (const wake of idleWaiters) wake();
    idleWaiters = [];
  }

  async function work(key: string, task: Task): Promise<void> {
    try {
      await reconcile(task);
    } catch (error) {
      if (!stop.signal.aborted) tryAgain(key, task, error);
    }
    running.delete(key);
    pump();
  }

  function tryAgain(key: string, task: Task, error: unknown): void {
    if (task.attempt >= attemptsMax || (error instanceof ScimError && !error.retryable)) {
      tell(world, task, "user_update_provision", { success: false, error_message: (error as Error).message });
      return;
    }
    waiting.add(key);
    clock.at(clock.now() + 500 * 2 ** task.attempt, () => {
      waiting.delete(key);
      if (!queue.has(key)) enqueue({ ...task, attempt: task.attempt + 1 });
    });
  }

  const settled = () => new Promise<void>((resolve) => idleWaiters.push(resolve));

  return {
    userChanged(user) {
      for (const pair of bound.applicationsOf(user)) enqueue({ ...pair, user, attempt: 1 });
    },
    applicationChanged(application, organization) {
      for (const user of bound.usersOf(application)) enqueue({ application, organization, user, attempt: 1 });
    },
    idle() {
      setImmediate(pump);
      return settled();
    },
    async close() {
      stop.abort();
      queue.clear();
      waiting.clear();
      setImmediate(pump);
      await settled();
    },
  };
}

/** Brings the endpoint to the wanted state of one pair, with at most one change. */
function createReconcile(world: World, signal: AbortSignal): (pair: Pair) => Promise<void> {
  const { db } = world;
  const scim = createScim(signal);
  const bound = bindings(db);

  function outboundFor(pair: Pair): Outbound | null {
    try {
      return outboundOf(findApplication(db, pair.organization, pair.application));
    } catch (error) {
      // The application is gone: no user may be present there any more.
      if (error instanceof Problem) return null;
      throw error;
    }
  }

  async function present(pair: Pair, user: User, outbound: Outbound, remote: string | null): Promise<void> {
    const id =
      remote === null ? await scim.create(outbound, user) : await scim.replace(outbound, remote, user);
    db.prepare("INSERT OR REPLACE INTO provisioned VALUES (?, ?, ?, 1, ?, ?)").run(
      pair.application,
      pair.user,
      id,
      fingerprint(user),
      JSON.stringify(outbound),
    );
    tell(world, pair, remote === null ? "user_create_provision" : "user_update_provision");
  }

  async function absent(pair: Pair, sent: Sent): Promise<void> {
    await scim.deactivate(JSON.parse(sent.endpoint) as Outbound, sent.remote);
    db.prepare("UPDATE provisioned SET active = 0 WHERE application = ? AND user = ?").run(
      pair.application,
      pair.user,
    );
    tell(world, pair, "user_delete_provision");
  }

  return async (pair) => {
    const sent = db
      .prepare<[string, string], Sent>(
        "SELECT remote, active, sent, endpoint FROM provisioned WHERE application = ? AND user = ?",
      )
      .get(pair.application, pair.user);
    const user = userOf(world, pair.user);
    const outbound = outboundFor(pair);
    const entitled =
      user?.state === "ACTIVATED" && user.suspended === 0 && bound.isBound(pair.application, pair.user);
    if (user !== undefined && entitled && outbound !== null) {
      if (sent?.active !== 1 || sent.sent !== fingerprint(user))
        await present(pair, user, outbound, sent?.remote ?? null);
    } else if (sent?.active === 1) {
      await absent(pair, sent);
    }
  };
}

function tell(world: World, pair: Pair, type: string, more: Readonly<Record<string, unknown>> = {}): void {
  const username = userOf(world, pair.user)?.username;
  world.tell(pair.organization, {
    event_type: type,
    initiated_by: { type: "system", source: "provisioning" },
    resource: { type: "user", id: pair.user, ...(username === undefined ? {} : { username }) },
    application: { id: pair.application },
    ...more,
  });
}

function userOf(world: World, id: string): User | undefined {
  return world.db.prepare<[string], User>("SELECT * FROM users WHERE id = ?").get(id);
}

function keyOf({ application, user }: Pair): string {
  return `${application} ${user}`;
}

function fingerprint(user: User): string {
  return JSON.stringify([user.username, user.email, user.firstname, user.lastname, user.attributes]);
}
