import { archiveOwner, isNamed, isOnHold, type OpenEvents, type TombstoneScope } from "../../core/archive.ts";
import type { State } from "../database.ts";
import { holdsIn } from "./erasures.ts";
import type { ArchivePages } from "./pages.ts";

interface OpenRow {
  readonly page: number;
  /** Empty: undated, then `bucket` is the day of arrival. */
  readonly day: string;
  readonly bucket: string;
  readonly events: number;
}

/** Counts the open events that an erasure is about, and which of them a hold keeps at the moment. */
export async function countOpenEvents(
  db: State,
  archive: string,
  pages: ArchivePages,
  { organization, event, from, to }: TombstoneScope,
): Promise<OpenEvents> {
  const holds = holdsIn(db, archive);
  const rows = db
    .prepare("SELECT page, day, bucket, events FROM archive_open WHERE archive = ? AND owner = ?")
    .all(archive, organization) as OpenRow[];
  const total = { leftOut: 0, onHold: 0 };
  for (const row of rows) {
    const day = row.day || row.bucket;
    if ((from !== null && day < from) || (to !== null && day > to)) continue;
    const events = event === null ? row.events : await countIn(pages, row, organization, event);
    total[isOnHold(holds, organization, day, day) ? "onHold" : "leftOut"] += events;
  }
  return total;
}

/** How often one event is in the page, by its id or identity, on the row's day. */
async function countIn(
  pages: ArchivePages,
  { page: number, day }: OpenRow,
  organization: string,
  wanted: string,
): Promise<number> {
  const page = await pages.fetch(number);
  try {
    let found = 0;
    for (let index = 0; index < page.count; index++) {
      const event = page.event(index);
      if (!isNamed(event, wanted)) continue;
      const owner = archiveOwner(event.organization, event.provider, event.account);
      if (owner === organization && page.day(event) === day && !page.isChanged) found++;
    }
    return found;
  } finally {
    page.release();
  }
}
