import { randomBytes } from "node:crypto";
import type { ArchiveHead, ArchiveState, Claim, NewPlan, Plan, ProposedEntry } from "../../core/archive.ts";
import type { PageMemory } from "../../core/buffer-pool.ts";
import type { State } from "../database.ts";
import { createArrivals } from "./arrivals.ts";
import { createClosable } from "./closable.ts";
import { eraseDeadLetters } from "./erase-dead-letters.ts";
import { erasureRulesOf } from "./erasures.ts";
import { countOpenEvents } from "./open-events.ts";
import { createArchivePages, type PageStaging } from "./pages.ts";

/** The state of one archive in the state file; see core/archive.ts for what each method promises. */
export async function openArchiveState(
  db: State,
  options: {
    readonly name: string;
    readonly journal: string;
    readonly retentionMs: number;
    /** Where pages go that only the archive holds. */
    readonly stagingFolder: string;
    readonly staging?: PageStaging | undefined;
    readonly memory?: PageMemory | undefined;
  },
): Promise<ArchiveState> {
  const { name } = options;
  await db.change(() => begin(db, name));
  const pages = createArchivePages(db, options);
  const arrivals = createArrivals(db, options, pages);
  const row = db.prepare("SELECT size, root, checkpoint, proposal FROM archives WHERE name = ?");
  const read = () =>
    row.get(name) as {
      size: number;
      root: string | null;
      checkpoint: string | null;
      proposal: string | null;
    };
  const entryRows = db.prepare("SELECT entry FROM archive_entries WHERE archive = ? ORDER BY number").pluck();
  const planRows = db.prepare(
    "SELECT id, kind, day, part, class, claims, seed, built FROM archive_plans WHERE archive = ? ORDER BY id",
  );
  const pagesOf = db
    .prepare("SELECT DISTINCT page FROM archive_open WHERE archive = ? AND plan = ? ORDER BY page")
    .pluck();
  const oldestDay = db
    .prepare("SELECT MIN(bucket) FROM archive_open WHERE archive = ? AND kind = 'day'")
    .pluck();
  const confirmed = db.prepare("SELECT MAX(asked_ms) FROM windows").pluck();
  const { change } = db;

  function propose(entries: readonly ProposedEntry[]): void {
    const next =
      (db.prepare("SELECT COUNT(*) FROM archive_entries WHERE archive = ?").pluck().get(name) as number) ?? 0;
    const insert = db.prepare(
      "INSERT INTO archive_entries (archive, number, entry, plan) VALUES (?, ?, ?, ?)",
    );
    for (const [at, { entry, plan }] of entries.entries()) insert.run(name, next + at, entry, plan ?? null);
  }

  function confirm(head: ArchiveHead): void {
    const plans = db
      .prepare("SELECT plan FROM archive_entries WHERE archive = ? AND plan IS NOT NULL AND number < ?")
      .pluck()
      .all(name, head.size) as number[];
    for (const plan of plans) {
      db.prepare("DELETE FROM archive_open WHERE archive = ? AND plan = ?").run(name, plan);
      // Overwritten first: what the secrets were made from must not stay in a free part of the file.
      db.prepare("UPDATE archive_plans SET seed = zeroblob(length(seed)) WHERE id = ?").run(plan);
      db.prepare("DELETE FROM archive_plans WHERE id = ?").run(plan);
    }
    db.prepare(
      "UPDATE archive_entries SET plan = NULL WHERE archive = ? AND plan IS NOT NULL AND number < ?",
    ).run(name, head.size);
    db.prepare("UPDATE archives SET size = ?, root = ?, checkpoint = ?, proposal = NULL WHERE name = ?").run(
      head.size,
      head.root,
      head.checkpoint,
      name,
    );
  }

  function plan(plans: readonly NewPlan[]): void {
    for (const { kind, day, class: retention, organizations } of plans) {
      const parts = db
        .prepare(
          `INSERT INTO archive_parts (archive, day, kind, parts) VALUES (?, ?, ?, 1)
           ON CONFLICT (archive, day, kind) DO UPDATE SET parts = parts + 1 RETURNING parts`,
        )
        .pluck()
        .get(name, day, kind) as number;
      const part = `${kind === "day" ? "" : `${kind}-`}${String(parts).padStart(3, "0")}`;
      const claims = organizations.toSorted((a, b) => (a.organization < b.organization ? -1 : 1));
      const { lastInsertRowid } = db
        .prepare(
          "INSERT INTO archive_plans (archive, kind, day, part, class, claims, seed) VALUES (?, ?, ?, ?, ?, ?, ?)",
        )
        .run(name, kind, day, part, retention, JSON.stringify(claims), randomBytes(32));
      assign(Number(lastInsertRowid), kind, day, claims);
    }
  }

  function assign(id: number, kind: string, bucket: string, claims: readonly Claim[]): void {
    // Without the hint SQLite scans all open rows for every organization.
    const take = db.prepare(
      "UPDATE archive_open INDEXED BY archive_open_by_bucket SET plan = ? WHERE archive = ? AND kind = ? AND bucket = ? AND owner = ? AND plan IS NULL",
    );
    const close = db.prepare("INSERT OR IGNORE INTO archive_closed (archive, day, owner) VALUES (?, ?, ?)");
    for (const { organization } of claims) {
      take.run(id, name, kind, bucket, organization);
      if (kind === "day") close.run(name, bucket, organization);
    }
  }

  return {
    head() {
      const { size, root, checkpoint } = read();
      return root === null || checkpoint === null ? undefined : { size, root, checkpoint };
    },
    entries: () => entryRows.all(name) as Buffer[],
    propose: (entries) => change(() => propose(entries)),
    proposal: () => read().proposal ?? undefined,
    setProposal: (checkpoint) =>
      change(() => void db.prepare("UPDATE archives SET proposal = ? WHERE name = ?").run(checkpoint, name)),
    confirm: async (head) => {
      await change(() => confirm(head));
      await pages.removeStaged();
    },
    noteArrivals: (pagesMax) => arrivals.note(pagesMax),
    // Looked at together: a page that came meanwhile has its turn first.
    closable: async (query) => (arrivals.hasMore() ? [] : createClosable(db, options).find(query)),
    plan: (plans) => change(() => plan(plans)),
    plans: () => (planRows.all(name) as PlanRow[]).map(planOf),
    pagesOf: (id) => pagesOf.all(name, id) as number[],
    page: (number) => pages.fetch(number),
    setBuilt: (id, built) =>
      change(
        () =>
          void db.prepare("UPDATE archive_plans SET built = ? WHERE id = ?").run(JSON.stringify(built), id),
      ),
    backlog: () => arrivals.backlog(),
    oldestDay: () => oldestDay.get(name) as string | null,
    confirmedMs: () => confirmed.get() as number | null,
    stage: (limit) => pages.stage(limit),
    tombstone: ({ organization, event, from, to }, reason) =>
      change(() => {
        db.prepare(
          "INSERT OR IGNORE INTO archive_tombstones (archive, owner, event, from_day, to_day, reason) VALUES (?, ?, ?, ?, ?, ?)",
        ).run(name, organization, event ?? "", from ?? "", to ?? "9999-12-31", reason);
      }),
    openEvents: (scope) => countOpenEvents(db, name, pages, scope),
    erasureRules: () => erasureRulesOf(db, name),
    eraseDeadLetters: (scope) => change(() => eraseDeadLetters(db, options.retentionMs, scope)),
    fact: (key) =>
      db.prepare("SELECT value FROM archive_facts WHERE archive = ? AND key = ?").pluck().get(name, key) as
        | string
        | undefined,
    setFact: (key, value) =>
      change(() => {
        if (value === null)
          db.prepare("DELETE FROM archive_facts WHERE archive = ? AND key = ?").run(name, key);
        else
          db.prepare(
            "INSERT INTO archive_facts (archive, key, value) VALUES (?, ?, ?) ON CONFLICT (archive, key) DO UPDATE SET value = excluded.value",
          ).run(name, key, value);
      }),
  };
}

/** A new archive begins with the oldest page whose bytes are still there, and holds the journal from then on. */
function begin(db: State, name: string): void {
  if (db.prepare("SELECT 1 FROM archives WHERE name = ?").get(name) !== undefined) return;
  const start = db
    .prepare(
      `SELECT COALESCE((SELECT MIN(page) - 1 FROM bodies), (SELECT MAX(number) FROM pages), 0) AS page,
         (SELECT rolling FROM pages WHERE number = COALESCE((SELECT MIN(page) - 1 FROM bodies), (SELECT MAX(number) FROM pages))) AS hash`,
    )
    .get() as { page: number; hash: string | null };
  db.prepare("INSERT INTO archives (name, noted_page, start_page) VALUES (?, ?, ?)").run(
    name,
    start.page,
    start.page,
  );
  db.prepare(
    `INSERT OR IGNORE INTO readers (name, page, event, hash, state, bound, committed_ms)
     VALUES (?, ?, COALESCE((SELECT events FROM pages WHERE number = ?), 0), ?, NULL, NULL, 0)`,
  ).run(name, start.page, start.page, start.hash ?? "");
}

interface PlanRow {
  readonly id: number;
  readonly kind: Plan["kind"];
  readonly day: string;
  readonly part: string;
  readonly class: string;
  readonly claims: string;
  readonly seed: Buffer;
  readonly built: string | null;
}

function planOf(row: PlanRow): Plan {
  const { claims, built, ...plan } = row;
  return {
    ...plan,
    organizations: JSON.parse(claims) as Claim[],
    built: built === null ? undefined : (JSON.parse(built) as object),
  };
}

/** How many log entries of an archive the state has, with those that are proposed. */
export function archiveEntriesIn(db: State, name: string): number {
  return db
    .prepare("SELECT COALESCE(MAX(number) + 1, 0) FROM archive_entries WHERE archive = ?")
    .pluck()
    .get(name) as number;
}

/** The log entries of an archive as the state has them, for commands beside a running process. */
export function archiveLogIn(db: State, name: string): readonly Buffer[] {
  return db
    .prepare("SELECT entry FROM archive_entries WHERE archive = ? ORDER BY number")
    .pluck()
    .all(name) as Buffer[];
}

/** The accounts with which each organization was asked for, or each portal as `provider:` and its id. */
export function accountsSeeing(db: State): Map<string, string[]> {
  const rows = db.prepare("SELECT DISTINCT account, provider, organizations FROM streams").all() as {
    account: string;
    provider: string | null;
    organizations: string;
  }[];
  const found = new Map<string, Set<string>>();
  for (const { account, provider, organizations } of rows) {
    const owners = provider === null ? (JSON.parse(organizations) as string[]) : [`provider:${provider}`];
    for (const owner of owners) found.set(owner, (found.get(owner) ?? new Set()).add(account));
  }
  return new Map([...found].map(([owner, accounts]) => [owner, [...accounts]]));
}

/** A fact of an archive, for commands beside a running process. */
export function archiveFactOf(db: State, name: string, key: string): string | undefined {
  return db.prepare("SELECT value FROM archive_facts WHERE archive = ? AND key = ?").pluck().get(name, key) as
    | string
    | undefined;
}
