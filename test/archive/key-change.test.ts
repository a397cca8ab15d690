import { afterEach, expect, test } from "vitest";
import { newSignerText, parseSigner } from "../../src/archive/log/note.ts";
import { A, DAY, ORIGIN, openWorld, type World } from "./world.ts";

let world: World;
afterEach(() => world.end());

const [signer, next] = [parseSigner(newSignerText(ORIGIN)), parseSigner(newSignerText(ORIGIN))];
const ONLY_OLD = { signer, previousSigner: undefined as never };
const ONLY_NEW = { signer: next, previousSigner: undefined as never };
const BOTH = { signer: next, previousSigner: signer };
const NO_HARM = /Nothing was signed/;

const CHANGES = ["create", "replace", "remove", "propose", "setProposal", "confirm", "setFact"];

/** A store or a state that a process uses which ends at its n-th change: before it is done, or after it. */
function ending<Target extends object>(target: Target, plan: { left: number; isDone: boolean }): Target {
  return new Proxy(target, {
    get(own, name) {
      const method = own[name as keyof Target] as (...args: unknown[]) => Promise<unknown>;
      if (!CHANGES.includes(String(name))) return method;
      return async (...args: unknown[]) => {
        plan.left--;
        if (plan.left > 0) return method(...args);
        if (plan.left === 0 && plan.isDone) await method(...args);
        throw new Error("the process ends here");
      };
    },
  });
}

async function expectValid(): Promise<void> {
  for (const { verifier } of [signer, next])
    expect((await world.verify({ key: verifier })).findings).toEqual([]);
}

test.each([
  ["before it is done", false],
  ["after it is done", true],
])(
  "A20 a change of the key that ends at any write, %s, is completed with both keys and never signed with one",
  async (_, isDone) => {
    for (let change = 1, isOver = false; !isOver; change++) {
      world = await openWorld({ signer });
      await world.events(A, DAY, 0, 3);
      await world.seal([A], DAY, 3);
      await world.closeAll();
      const plan = { left: change, isDone };
      await world.restart(BOTH, (target) => ending(target, plan)).catch(() => {});
      isOver = plan.left > 0;
      // The config still names the old key, or the new one alone.
      for (const config of [ONLY_OLD, ONLY_NEW])
        await world.restart(config).catch((error: Error) => expect(error.message).toMatch(NO_HARM));
      await world.restart(BOTH);
      await expectValid();
      await world.restart(ONLY_NEW);
      await expectValid();
      if (isOver) expect(change).toBeGreaterThan(8);
      else world.end();
    }
  },
);

test("A20 entries that a crash left behind are signed with the key of their time when the key is changed next", async () => {
  for (let change = 1, isOver = false; !isOver; change++) {
    world = await openWorld({ signer });
    await world.events(A, DAY, 0, 3);
    await world.seal([A], DAY, 3);
    const plan = { left: Number.POSITIVE_INFINITY, isDone: true };
    await world.restart({}, (target) => ending(target, plan));
    plan.left = change;
    await world.closeAll().catch(() => {});
    isOver = plan.left > 0;
    await world.restart(ONLY_NEW).catch((error: Error) => expect(error.message).toMatch(NO_HARM));
    await world.restart(BOTH);
    await world.closeAll();
    await expectValid();
    expect((await world.verify()).events).toBe(3);
    if (isOver) expect(change).toBeGreaterThan(8);
    else world.end();
  }
});
