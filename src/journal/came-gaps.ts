import type { Clock } from "../core/clock.ts";
import { gapNameOf, isUnnamed, mayBeAbout } from "../core/gap.ts";
import type { PageCommit } from "../core/journal.ts";
import { matchPlaces } from "../core/places.ts";
import { IDENTITY_BYTES, type PreparedPage } from "../core/prepare-page.ts";
import { FIELD, fieldText } from "../core/scanner.ts";
import type { State } from "./database.ts";

interface AwaitedRow {
  readonly id: number;
  readonly account: string;
  readonly organization: string;
  readonly fromMs: number;
  readonly toMs: number;
  readonly detail: string;
}

/**
 * Notes which unreadable events have come, inside the caller's transaction. One with a name is known by it. For one
 * without a name, an event of its time may be it that comes after the gap was found. Only such gaps end when their time
 * is read whole: the service may have deleted the others.
 */
export function createCameGaps(db: State, clock: Clock) {
  const anyAwaited = db
    .prepare("SELECT 1 FROM gaps WHERE reason = 'unreadable' AND came_ms IS NULL LIMIT 1")
    .pluck();
  // Of several, the one whose time is known best.
  const awaited = db.prepare(
    `SELECT id, account, organization, from_ms AS fromMs, to_ms AS toMs, detail FROM gaps
     WHERE reason = 'unreadable' AND came_ms IS NULL AND provider IS ? AND to_ms > ? AND from_ms <= ?
     ORDER BY to_ms - from_ms`,
  );
  const came = db.prepare("UPDATE gaps SET came_ms = ? WHERE id = ?");

  return {
    note(commit: PageCommit, fresh: ArrayLike<number> & Iterable<number>): void {
      if (fresh.length === 0 || anyAwaited.get() === undefined) return;
      const { page, account, provider, isOwn, passedOver = [] } = commit;
      const times = [
        ...page.spans.flatMap(({ firstMs, lastMs }) => [firstMs, lastMs]),
        ...passedOver.flatMap(({ fromMs, toMs }) => [fromMs, toMs]),
      ];
      const all = awaited.all(provider, Math.min(...times), Math.max(...times)) as AwaitedRow[];
      // These are not readable in the same reading, so what it brings is something else.
      const isOfReading = (gap: AwaitedRow) =>
        isUnnamed(gap) && gap.account === account && gap.organization === (commit.organization ?? "");
      const met = new Set(matchPlaces(passedOver, [all.filter(isOfReading)]).values());
      let left = all.filter((gap) => !met.has(gap));
      for (const index of left.length > 0 ? fresh : []) {
        const timeMs = page.timesMs[index]!;
        const owner = page.organizations[page.organizationIndexes[index]!] ?? "";
        // The gaps of a portal, and of a key's own organization, name no organization.
        const organization = provider !== null || isOwn ? "" : owner;
        const near = left.filter(
          (gap) =>
            gap.fromMs <= timeMs &&
            timeMs < gap.toMs &&
            gap.organization === organization &&
            (provider !== null || organization !== "" || gap.account === account),
        );
        const ended = near.length > 0 ? endedBy(near, nameAt(page, index)) : [];
        for (const { id } of ended) came.run(clock.now(), id);
        if (ended.length > 0) left = left.filter((gap) => !ended.includes(gap));
      }
    },
  };
}

/** An event is one event for each account that lacks it. */
function endedBy(near: readonly AwaitedRow[], name: string): AwaitedRow[] {
  const accounts = [...new Set(near.map(({ account }) => account))];
  return accounts.flatMap((account) => {
    const gaps = near.filter((gap) => gap.account === account);
    const named = gaps.find((gap) => !isUnnamed(gap) && mayBeAbout(gap.detail, name));
    const gap = named ?? gaps.find(isUnnamed);
    return gap === undefined ? [] : [gap];
  });
}

function nameAt({ identities, scanned }: PreparedPage, index: number): string {
  const identity = identities.subarray(index * IDENTITY_BYTES, (index + 1) * IDENTITY_BYTES);
  return gapNameOf(fieldText(scanned, index, FIELD.id), identity.toString("hex"));
}
