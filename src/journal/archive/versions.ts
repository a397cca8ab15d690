import type { PageCommit } from "../../core/journal.ts";
import { IDENTITY_BYTES } from "../../core/prepare-page.ts";
import type { State } from "../database.ts";

/** Versions of one archive that are journaled for the first time: their indexes in the page. */
export interface NewVersions {
  readonly archive: string;
  readonly indexes: readonly number[];
}

/**
 * Finds the further versions of held events that no archive has yet (A9). A sweep shows a changed event again and
 * again; each version is journaled once for each archive, as a page for that archive alone.
 */
export function createVersions(db: State) {
  const archives = db.prepare("SELECT name FROM archives WHERE name IN (SELECT name FROM readers)").pluck();
  const insert = db.prepare(
    "INSERT OR IGNORE INTO archive_versions (archive, identity, digest, time_ms) VALUES (?, ?, ?, ?)",
  );
  return {
    /** Inside a change: notes the versions, and says which were not known. */
    note({ page }: PageCommit, changed: readonly number[]): NewVersions[] {
      return (archives.all() as string[]).flatMap((archive) => {
        const indexes = changed.filter((index) => {
          const identity = page.identities.subarray(index * IDENTITY_BYTES, (index + 1) * IDENTITY_BYTES);
          return insert.run(archive, identity, page.digests[index]!, page.timesMs[index]!).changes > 0;
        });
        return indexes.length === 0 ? [] : [{ archive, indexes }];
      });
    },
  };
}
