import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { archiveSchema, classOf } from "../../src/archive/config.ts";
import { createDeletions } from "../../src/archive/deletion/deletion.ts";
import { systemClock } from "../../src/core/clock.ts";
import { accountsSeeing } from "../../src/journal/archive/state.ts";
import { A, B, DAY, never, ORIGIN, openWorld, type World } from "./world.ts";

let world: World;
afterEach(() => world.end());

const configOf = (more: object) =>
  archiveSchema.parse({
    origin: ORIGIN,
    key: { env: "KEY" },
    store: { directory: "/x" },
    keep: "1d",
    ...more,
  });

/** A day of A and B, closed under this config; account `acme` sees both. */
async function closedUnder(more: object): Promise<void> {
  const config = configOf(more);
  world = await openWorld({
    classOf: ({ organization, accounts }) => classOf(config, organization, accounts),
  });
  await world.events(A, DAY, 0, 4);
  await world.events(B, DAY, 10, 4);
  await world.seal([A, B], DAY, 8);
  await world.closeAll();
}

function prune(more: object): Promise<string> {
  const { archive, store, state, db } = world;
  return createDeletions({
    ...{ archive, store, state, config: configOf(more), workFolder: join(world.folder, "deleting") },
    clock: { now: () => world.nowMs, sleep: systemClock.sleep },
    accountsSeeing: () => accountsSeeing(db),
  }).prune({ dryRun: false }, never);
}

/** The events of A and B; also verifies. */
async function eventsLeft(): Promise<number[]> {
  const counts: number[] = [];
  for (const organization of [A, B]) {
    const { findings, events } = await world.verify({ organizations: [organization] });
    expect(findings).toEqual([]);
    counts.push(events);
  }
  return counts;
}

describe("A22 prune keeps a day for the longer of the class it was closed with and the class of its organization now", () => {
  test("an organization that is taken out of its class", async () => {
    const long = { name: "long", keep: "6y", organizations: [A] };
    await closedUnder({ classes: [long] });
    expect(await prune({ classes: [{ ...long, organizations: [] }] })).toContain("1 parts were pruned");
    expect(await eventsLeft()).toEqual([4, 0]);
  });

  test("an organization of an account that is put into a class, also of one that the day was not closed with", async () => {
    await closedUnder({});
    const classes = (account: string) => [{ name: "long", keep: "6y", accounts: [account] }];
    expect(await prune({ classes: classes("acme") })).toContain("0 parts were pruned");
    await world.journal.stream({
      account: "renamed",
      provider: null,
      organizations: [A],
      services: ["all"],
    });
    expect(await prune({ classes: classes("renamed") })).toContain("1 parts were pruned");
    expect(await eventsLeft()).toEqual([4, 0]);
  });

  test("a class of the name of the default does not shorten it", async () => {
    await closedUnder({ keep: "400d" });
    expect(await prune({ keep: "400d", classes: [{ name: "default", keep: "1d" }] })).toContain(
      "0 parts were pruned",
    );
    expect(await eventsLeft()).toEqual([4, 4]);
  });

  test("of two classes of one name the longer time counts", async () => {
    await closedUnder({ classes: [{ name: "long", keep: "6y", organizations: [A, B] }] });
    const classes = ["1d", "6y"].map((keep) => ({ name: "long", keep }));
    expect(await prune({ classes })).toContain("0 parts were pruned");
    expect(await eventsLeft()).toEqual([4, 4]);
  });
});
