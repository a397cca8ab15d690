import { join } from "node:path";
import { expect, test } from "vitest";
import { createModelChangelog } from "../../../sim/changelog.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { ownsOrganization, type Shard, shareOf } from "../../../src/core/shard.ts";
import { openState } from "../../../src/journal/database.ts";
import { createJournal } from "../../../src/journal/journal.ts";
import { adoptStates } from "../../../src/journal/replication/adopt.ts";
import { openLane } from "../../../src/journal/replication/open.ts";
import { createRoster } from "../../../src/journal/roster.ts";
import { eventText, ORGANIZATION, OTHER_ORGANIZATION, pageOf, textsOf } from "../../support/pages.ts";
import { temporaryFolder } from "../support.ts";

const never = new AbortController().signal;
const LANES = 2;

test("C16 every lane gets the identities of its own organizations, so nothing adopted is read as new again", async () => {
  const folder = temporaryFolder();
  const changelog = createModelChangelog();
  const source = openState(join(folder.path, "old.db"));
  try {
    const journal = createJournal(source, systemClock);
    const both = [ORGANIZATION, OTHER_ORGANIZATION].map((id) => ({ id, name: id }));
    await createRoster(source).seen("acme", both, 1);
    const events = [ORGANIZATION, OTHER_ORGANIZATION].flatMap((organization, of) =>
      Array.from({ length: 20 }, (_, at) => eventText(of * 100 + at, { organization })),
    );
    await journal.append(pageOf(events, { organizations: [ORGANIZATION, OTHER_ORGANIZATION] }));
    const reader = await journal.reader("sink");
    await reader.commit(journal.end(), undefined);
    await adoptStates([source], {
      ...{ changelog, cluster: "c1", lanes: LANES, hash: "h", nowMs: Date.now(), signal: never },
      temporary: join(folder.path, "adopting.db"),
      ownersOf: (shard: Shard) => ({
        organization: (id) => ownsOrganization(shard, id),
        job: () => shard.index === 0,
        import: () => shard.index === 0,
      }),
    });
    for (let lane = 0; lane < LANES; lane++) {
      const file = join(folder.path, `lane-${lane}.db`);
      const opened = await openLane({ file, changelog, lane, machine: "m", signal: never });
      const own = createJournal(opened.state, systemClock);
      const fresh: string[] = [];
      for (const organization of [ORGANIZATION, OTHER_ORGANIZATION]) {
        const of = organization === ORGANIZATION ? 0 : 1;
        const again = events.slice(of * 20, of * 20 + 20);
        const { fresh: count } = await own.append(pageOf(again, { organizations: [organization] }));
        const isOwn = shareOf(organization, LANES) === lane;
        expect(count, `lane ${lane}, ${organization}`).toBe(isOwn ? 0 : 20);
        if (!isOwn) fresh.push(...again);
      }
      // The sink goes on behind everything that was delivered before.
      expect(await textsOf(own, "sink")).toEqual(fresh);
      await opened.close();
    }
  } finally {
    source.close();
    folder.remove();
  }
});
