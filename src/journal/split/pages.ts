import type { Connection, State } from "../database.ts";
import { ENTRY_BYTES } from "../held-counts.ts";
import { rowChecksum } from "../row-checksums.ts";
import { rollingOf } from "../verify.ts";
import { createSeenMover, type Entries } from "./also-seen.ts";
import type { Move } from "./move.ts";
import { copyRows } from "./rows.ts";

interface IdentityRow extends Entries {
  readonly page: number;
}

/**
 * The identities of the shard, and a row for each page that they came from: identities are forgotten by the age
 * of their page. A page's row counts the shard's events alone, so that totals over all shards stay true.
 */
export function copyPages(move: Move): void {
  const { db, source } = move;
  const isOwn = identityOwner(move);
  const seen = createSeenMover(move);
  const numbers = new Map<number, { readonly number: number } & Source>();
  const chain = chainOf(db);
  const addPage = db.prepare(
    `INSERT INTO pages (number, account, organization, provider, fetched_ms, newest_ms, events, bytes, checksum, rolling)
     VALUES (@number, @account, @organization, @provider, @fetched_ms, @newest_ms, @events, 0, @checksum, @rolling)`,
  );
  const events = eventsByPage(source, isOwn.identity);
  const pages = source.prepare(
    "SELECT number AS old, account, organization, provider, fetched_ms, newest_ms, checksum FROM pages ORDER BY number",
  );
  for (const { old, ...page } of pages.iterate() as IterableIterator<PageRow>) {
    const count = events.get(old);
    if (count === undefined) continue;
    const next = chain.next(page.checksum);
    addPage.run({ ...page, ...next, events: count });
    numbers.set(old, { ...next, account: page.account, provider: page.provider });
  }
  const addIdentities = db.prepare(
    "INSERT INTO identities (owner, first_ms, last_ms, page, entries, row_checksum) VALUES (@owner, @first_ms, @last_ms, @page, @entries, @row_checksum)",
  );
  const rows = source.prepare("SELECT owner, first_ms, last_ms, page, entries FROM identities ORDER BY id");
  for (const row of rows.iterate() as IterableIterator<IdentityRow>) {
    const page = numbers.get(row.page);
    if (page === undefined || !isOwn.identity(row)) continue;
    const left = seen.withoutHeld(row, page);
    if (left !== undefined) addEntries(left, page.number);
  }
  seen.copy(isOwn.seen, (row, checksum) => {
    const next = chain.next(checksum);
    const { account, provider, last_ms: newest_ms } = row;
    // The event is counted where it was read first.
    addPage.run({
      account,
      organization: null,
      provider,
      fetched_ms: newest_ms,
      newest_ms,
      ...next,
      events: 0,
      checksum,
    });
    addEntries(row, next.number);
  });

  function addEntries({ owner, first_ms, last_ms, entries }: Entries, page: number): void {
    const moved = { owner, first_ms, last_ms, page, entries };
    addIdentities.run({ ...moved, row_checksum: rowChecksum(moved) });
  }
}

/**
 * A portal's events stay with the portal, also those that name an organization. An owner that no list has is the
 * key's own organization, which shard 0 reads.
 */
function identityOwner({ source, owners }: Move) {
  const listed = source.prepare("SELECT DISTINCT id FROM organizations").pluck().all() as string[];
  const own = new Map(listed.map((id) => [id, owners.organization(id)]));
  const isFirst = owners.organization(null);
  const portalPages = new Set(
    source.prepare("SELECT number FROM pages WHERE provider IS NOT NULL").pluck().all() as number[],
  );
  const isOwn = (owner: string, isPortal: boolean) => (isPortal ? isFirst : (own.get(owner) ?? isFirst));
  return {
    identity: ({ owner, page }: Pick<IdentityRow, "owner" | "page">) => isOwn(owner, portalPages.has(page)),
    seen: ({ owner, provider }: { readonly owner: string; readonly provider: string | null }) =>
      isOwn(owner, provider !== null),
  };
}

interface Source {
  readonly account: string;
  readonly provider: string | null;
}

interface PageRow extends Source {
  readonly old: number;
  readonly checksum: Buffer;
}

/** How many events of the shard each page has. */
function eventsByPage(source: Connection, isOwn: (row: Pick<IdentityRow, "owner" | "page">) => boolean) {
  const events = new Map<number, number>();
  const rows = source.prepare("SELECT owner, page, length(entries) AS bytes FROM identities").iterate();
  for (const row of rows as IterableIterator<{ owner: string; page: number; bytes: number }>)
    if (isOwn(row)) events.set(row.page, (events.get(row.page) ?? 0) + row.bytes / ENTRY_BYTES);
  return events;
}

/** Numbers and hashes that continue what is in the new state already. */
function chainOf(db: State) {
  const last = db.prepare("SELECT number, rolling FROM pages ORDER BY number DESC LIMIT 1").get() as
    | { number: number; rolling: string }
    | undefined;
  let { number, rolling } = last ?? { number: 0, rolling: "" };
  return {
    next(checksum: Buffer) {
      number++;
      rolling = rollingOf(rolling, checksum);
      return { number, rolling };
    },
  };
}

/** The lists of organizations, as far as they belong to the shard. */
export function copyOrganizations(move: Move): void {
  copyRows(move, "organizations", { keep: ({ id }) => move.owners.organization(id as string) });
}
