import { firstNames, lastNames, userFields } from "../generator/words.ts";
import { createRandom } from "../random.ts";
import type { Application } from "./applications.ts";
import type { User } from "./user.ts";
import type { Users } from "./users.ts";
import type { World } from "./world.ts";

/** A user as a source offers it. */
export interface ImportEntry {
  readonly id: string;
  readonly username: string;
  readonly email: string;
  readonly firstname: string;
  readonly lastname: string;
  readonly state?: "STAGED" | "ACTIVATED";
  readonly attributes: Readonly<Record<string, string>>;
}

export interface ImportRequest {
  readonly operations: readonly ("users.create" | "users.update")[];
  readonly allowUserReactivation: boolean;
  /** Creation source of new users. */
  readonly source: string;
}

export type Outcome = "pending" | "created" | "updated" | "skipped" | "failed";

export interface JobUser {
  readonly number: number;
  readonly entry: ImportEntry;
  readonly outcome: Outcome;
  readonly user: string | null;
  readonly error: string | null;
  readonly at: string | null;
}

export interface Job {
  readonly id: string;
  readonly organization: string;
  readonly application: string;
  readonly kind: "import" | "workday";
  readonly request: ImportRequest;
  readonly created: string;
  readonly finished: string | null;
}

/** Background imports. One user per beat of the clock; each leaves an event that carries the job as correlation. */
export interface Imports {
  start(job: {
    organization: string;
    application: string;
    kind: Job["kind"];
    request: ImportRequest;
    entries: readonly ImportEntry[];
  }): string;
  /** Goes on with jobs that a previous run of this world left unfinished. */
  resume(): void;
  list(): Job[];
  find(id: string): Job | undefined;
  users(job: string): JobUser[];
}

interface JobRow {
  id: string;
  organization: string;
  application: string;
  kind: Job["kind"];
  request: string;
  created_ms: number;
  next_ms: number;
  finished_ms: number | null;
}

const failures = [
  "email already in use",
  "username is not valid",
  "required attribute missing: lastname",
  "source answered 500",
];

export function createImports(world: World, users: Users): Imports {
  const { db, clock, settings } = world;
  const beatMs = 1000 / settings.imports.usersPerSecond;

  function schedule(id: string): void {
    const row = rowOf(id);
    if (row === undefined || row.finished_ms !== null) return;
    clock.at(row.next_ms, () => run(id));
  }

  /** Handles every user that is due, then waits for the next beat. */
  function run(id: string): void {
    const job = rowOf(id)!;
    const pending = db
      .prepare<[string], { number: number; entry: string }>(
        "SELECT number, entry FROM job_users WHERE job = ? AND outcome = 'pending' ORDER BY number",
      )
      .all(id);
    let nextMs = job.next_ms;
    let done = 0;
    for (const { number, entry } of pending) {
      if (nextMs > clock.now()) break;
      handle(job, number, JSON.parse(entry) as ImportEntry);
      nextMs += beatMs;
      done++;
    }
    const finished = done === pending.length ? clock.now() : null;
    db.prepare("UPDATE jobs SET next_ms = ?, finished_ms = ? WHERE id = ?").run(nextMs, finished, id);
    schedule(id);
  }

  function handle(job: JobRow, number: number, entry: ImportEntry): void {
    const random = createRandom(settings.seed, Number.parseInt(job.id.slice(0, 12), 16), number);
    const { outcome, user, error } = random.chance(settings.imports.failureShare)
      ? { outcome: "failed" as const, user: null, error: random.pick(failures) }
      : apply(job, JSON.parse(job.request) as ImportRequest, entry);
    db.prepare(
      "UPDATE job_users SET outcome = ?, user = ?, error = ?, at_ms = ? WHERE job = ? AND number = ?",
    ).run(outcome, user?.id ?? null, error, clock.now(), job.id, number);
    if (outcome === "failed")
      tell(job, "user_create", {
        resource: { type: "user", username: entry.username },
        success: false,
        error_message: error,
      });
  }

  function apply(
    job: JobRow,
    request: ImportRequest,
    entry: ImportEntry,
  ): { outcome: Outcome; user: User | null; error: string | null } {
    const existing = users.byLogin(job.organization, entry.username, entry.email);
    if (existing === undefined) {
      if (!request.operations.includes("users.create"))
        return { outcome: "skipped", user: null, error: null };
      return { outcome: "created", user: create(job, request, entry), error: null };
    }
    if (!request.operations.includes("users.update"))
      return { outcome: "skipped", user: existing, error: null };
    return { outcome: "updated", user: update(job, request, entry, existing), error: null };
  }

  function create(job: JobRow, request: ImportRequest, entry: ImportEntry): User {
    const { username, email, firstname, lastname } = entry;
    const user = users.create({
      ...{ organization: job.organization, username, email, firstname, lastname },
      state: entry.state ?? settings.imports.state,
      source: request.source,
      attributes: JSON.stringify(entry.attributes),
    });
    const changes = [
      { field: "state", to: user.state },
      { field: "email", to: email },
    ];
    tell(job, "user_create", { resource: { type: "user", id: user.id, username }, changes });
    return user;
  }

  function update(job: JobRow, request: ImportRequest, entry: ImportEntry, existing: User): User {
    const reactivated = existing.suspended === 1 && request.allowUserReactivation;
    const attributes = JSON.stringify({
      ...(JSON.parse(existing.attributes) as object),
      ...entry.attributes,
    });
    const { firstname, lastname } = entry;
    const user = users.update(existing, {
      firstname,
      lastname,
      attributes,
      ...(reactivated ? { suspended: 0 } : {}),
    });
    const changes: object[] = Object.entries(entry.attributes).map(([field, to]) => ({ field, to }));
    if (reactivated) changes.push({ field: "suspended", from: true, to: false });
    tell(job, "systemuser_update", {
      resource: { type: "user", id: user.id, username: user.username },
      changes,
    });
    return user;
  }

  function tell(job: JobRow, type: string, more: Record<string, unknown>): void {
    world.tell(job.organization, {
      event_type: type,
      correlation: { id: job.id, type: "user_import" },
      initiated_by: {
        type: "integration",
        id: job.application,
        source: "user_import",
        source_metadata: { name: job.kind },
      },
      idm_client_id: job.application,
      application: { id: job.application },
      ...more,
    });
  }

  const rowOf = (id: string) => db.prepare<[string], JobRow>("SELECT * FROM jobs WHERE id = ?").get(id);

  return {
    start({ organization, application, kind, request, entries }) {
      const id = world.newId();
      const now = clock.now();
      db.transaction(() => {
        db.prepare("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, NULL)").run(
          id,
          organization,
          application,
          kind,
          JSON.stringify(request),
          now,
          now + beatMs,
        );
        const insert = db.prepare("INSERT INTO job_users VALUES (?, ?, ?, 'pending', NULL, NULL, NULL)");
        for (const [number, entry] of entries.entries()) insert.run(id, number, JSON.stringify(entry));
      })();
      schedule(id);
      return id;
    },
    resume() {
      for (const { id } of db
        .prepare<[], { id: string }>("SELECT id FROM jobs WHERE finished_ms IS NULL")
        .all())
        schedule(id);
    },
    list: () => db.prepare<[], JobRow>("SELECT * FROM jobs ORDER BY created_ms, id").all().map(jobOf),
    find(id) {
      const row = rowOf(id);
      return row === undefined ? undefined : jobOf(row);
    },
    users: (job) =>
      db
        .prepare<
          [string],
          {
            number: number;
            entry: string;
            outcome: Outcome;
            user: string | null;
            error: string | null;
            at_ms: number | null;
          }
        >("SELECT * FROM job_users WHERE job = ? ORDER BY number")
        .all(job)
        .map(({ number, entry, outcome, user, error, at_ms }) => ({
          ...{ number, outcome, user, error },
          entry: JSON.parse(entry) as ImportEntry,
          at: at_ms === null ? null : new Date(at_ms).toISOString(),
        })),
  };
}

function jobOf(row: JobRow): Job {
  const { id, organization, application, kind, request, created_ms, finished_ms } = row;
  return {
    ...{ id, organization, application, kind },
    request: JSON.parse(request) as ImportRequest,
    created: new Date(created_ms).toISOString(),
    finished: finished_ms === null ? null : new Date(finished_ms).toISOString(),
  };
}

/** The offer of an application's source: some users that exist already, with changes, and some that do not. */
export function sourceEntries(
  world: World,
  application: Pick<Application, "_id" | "organization">,
): ImportEntry[] {
  const random = createRandom(world.settings.seed, Number.parseInt(application._id.slice(0, 12), 16));
  const { users, name } = world.tenant(application.organization);
  const host = name.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
  return Array.from({ length: world.settings.imports.sourceUsers }, (_, index) => {
    const known = index % 3 === 0 ? users[index / 3] : undefined;
    const [firstname, lastname] =
      known === undefined
        ? [random.pick(firstNames), random.pick(lastNames)]
        : [known.firstname, known.lastname];
    const username = known?.username ?? `${firstname}.${lastname}.i${index}`;
    return {
      id: random.uuid(),
      username,
      email: known?.email ?? `${username}@${host}.example`,
      firstname,
      lastname,
      attributes: {
        [random.pick(userFields)]: `value ${random.below(1000)}`,
        employeeIdentifier: String(10_000 + index),
      },
    };
  });
}
