import { afterEach, expect, test } from "vitest";
import { silentLog } from "../../src/core/log.ts";
import { newWindow, StaleWindowError } from "../../src/core/window.ts";
import { createLearned, type PollContext } from "../../src/polling/context.ts";
import { planWindows } from "../../src/polling/plan/plan-windows.ts";
import { readAlone, replaceByGroups } from "../../src/polling/read/split-window.ts";
import { openWorld, START_MS, type World } from "./support.ts";

let world: World | undefined;
afterEach(async () => {
  await world?.close();
  world = undefined;
});

test("R1 a group that is taken apart while the plan is made is polled once, and the plan is made anew", async () => {
  world = await openWorld({ simulator: { organizations: 2, events: 0 } });
  const { journal, clock, organizations } = world;
  const group = { account: "acme", provider: null, organizations, services: ["all"] };
  await journal.changeWindows({
    add: [newWindow(await journal.stream(group), START_MS - 1000, START_MS, { live: true })],
  });
  const [live] = await journal.windows();
  const context = {
    account: "acme",
    journal,
    clock,
    log: silentLog,
    learned: createLearned(8192),
    serviceClock: clock,
    source: { headerBytes: () => 100 },
    settings: { services: ["all"], sinceMs: 1000, retentionMs: 86_400_000 },
  } as unknown as PollContext;
  const scope = {
    provider: null,
    organizations: organizations.map((id) => ({ id, state: "active", traffic: 0 }) as never),
  };
  // The plan has seen the group, and looks for the streams that it wants.
  const takenApart: PollContext = {
    ...context,
    journal: {
      ...journal,
      async stream(description) {
        if ((await journal.windows({ id: live!.id })).length > 0) {
          const singles = organizations.map((id) => [id]);
          await replaceByGroups(context, live!, singles);
        }
        return journal.stream(description);
      },
    },
  };
  readAlone(context, organizations);

  await expect(planWindows(takenApart, scope)).rejects.toThrow(StaleWindowError);
  await planWindows(context, scope);
  const polled = await journal.windows({ live: true });
  expect(polled.map(({ stream, fromMs }) => [stream.organizations, fromMs])).toEqual(
    organizations.map((id) => [[id], START_MS - 1000]),
  );
});
