import type { State } from "../database.ts";

/** Whether an event of that day was erased, by its id or its identity of 32 hexadecimal digits. */
export type IsErased = (
  organization: string,
  day: string,
  event: { readonly id: string | undefined; readonly identity: string },
) => boolean;

/** The erasures of an archive, read once. */
export function erasuresOf(db: State, archive: string): IsErased {
  const rows = db
    .prepare(
      "SELECT owner, event, from_day AS fromDay, to_day AS toDay FROM archive_tombstones WHERE archive = ?",
    )
    .all(archive) as { owner: string; event: string; fromDay: string; toDay: string }[];
  if (rows.length === 0) return () => false;
  return (organization, day, { id, identity }) =>
    rows.some(
      ({ owner, event, fromDay, toDay }) =>
        owner === organization &&
        day >= fromDay &&
        day <= toDay &&
        (event === "" || event === id || event === identity),
    );
}
