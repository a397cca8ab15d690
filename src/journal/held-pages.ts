import { archiveOwner } from "../core/archive.ts";
import type { HeldPage, HeldPageContent } from "../core/holdings.ts";
import { erasureRulesOf } from "./archive/erasures.ts";
import { createArchivePages } from "./archive/pages.ts";
import type { State } from "./database.ts";

/** One consistent look at the state file: the confirmed log of an archive, and the pages that it has not closed. */
export interface HeldState {
  /** The confirmed entries of the archive's log; empty where there is no archive. */
  readonly entries: readonly Buffer[];
  readonly pages: readonly HeldPage[];
  readonly erasures: string;
}

export interface HeldPages {
  look(): HeldState;
  page(number: number): HeldPageContent | undefined;
  pageKey(number: number): string | undefined;
}

/** Reads beside the running process. `archive` is null where the config has none: then all pages are open. */
export function openHeldPages(
  db: State,
  archive: { readonly name: string; readonly stagingFolder: string; readonly retentionMs: number } | null,
): HeldPages {
  const journal = db.prepare("SELECT value FROM meta WHERE key = 'journal'").pluck().get() as string;
  const name = archive?.name ?? "";
  const pages = createArchivePages(db, {
    name,
    journal,
    retentionMs: archive?.retentionMs ?? 0,
    stagingFolder: archive?.stagingFolder ?? "",
  });
  const isKnown = db.prepare("SELECT noted_page AS noted, size FROM archives WHERE name = ?");
  const entryRows = db
    .prepare("SELECT entry FROM archive_entries WHERE archive = ? AND number < ? ORDER BY number")
    .pluck();
  const openRows = db.prepare("SELECT page, owner, day FROM archive_open WHERE archive = ? ORDER BY page");
  const pageRows = db.prepare(
    `SELECT number, events, rolling FROM pages p WHERE (reader IS NULL OR reader = @name)
     AND (EXISTS (SELECT 1 FROM bodies b WHERE b.page = p.number)
       OR EXISTS (SELECT 1 FROM archive_staged s WHERE s.page = p.number AND s.archive = @name)) ORDER BY number`,
  );
  const hasBytes = db
    .prepare(
      "SELECT 1 FROM bodies WHERE page = @page UNION SELECT 1 FROM archive_staged WHERE page = @page AND archive = @name",
    )
    .pluck();
  const rollingOf = db.prepare("SELECT rolling FROM pages WHERE number = ?").pluck();

  const look = db.transaction((): HeldState => {
    const known = isKnown.get(name) as { noted: number; size: number } | undefined;
    const noted = known?.noted ?? 0;
    const open = new Map<number, { organization: string; day: string }[]>();
    for (const row of openRows.all(name) as { page: number; owner: string; day: string }[]) {
      const list = open.get(row.page) ?? [];
      list.push({ organization: row.owner, day: row.day });
      open.set(row.page, list);
    }
    const held = pageRows.all({ name }) as { number: number; events: number; rolling: string }[];
    return {
      entries: known === undefined ? [] : (entryRows.all(name, known.size) as Buffer[]),
      pages: held
        .filter(({ number }) => number > noted || open.has(number))
        .map(({ number, events, rolling }) => ({
          number,
          events,
          key: rolling,
          open: number > noted ? null : open.get(number)!,
        })),
      erasures: erasureRulesOf(db, name),
    };
  });

  return {
    look: () => look(),
    page(number) {
      if (hasBytes.get({ page: number, name }) === undefined) return undefined;
      try {
        const page = pages.read(number);
        const organization: HeldPageContent["organization"] = (event) =>
          archiveOwner(event.organization, event.provider, event.account);
        return {
          count: page.count,
          event: (index) => page.event(index),
          organization,
          day: (event) => page.day(event),
          isErased: (event) => page.erasedBy(organization(event), event) !== undefined,
        };
      } catch (error) {
        // A staged page is removed once its events are closed, perhaps between the two lines above.
        if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
        throw error;
      }
    },
    pageKey: (number) => rollingOf.get(number) as string | undefined,
  };
}
