import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { currentParts } from "../../src/archive/log/current-parts.ts";
import { isPart } from "../../src/archive/log/leaf.ts";
import type * as checkersModule from "../../src/archive/verify/checkers.ts";
import { createFindings } from "../../src/archive/verify/findings.ts";
import { runProgram } from "../support/program.ts";
import { A, B, openWorld, type World } from "./world.ts";

const DAYS = ["2026-03-10", "2026-03-11", "2026-03-12", "2026-03-13", "2026-03-14"];
let world: World;

beforeAll(async () => {
  world = await openWorld();
  for (const [at, day] of DAYS.entries()) {
    await world.events(A, day, at * 100, 3);
    await world.events(B, day, at * 100 + 10, 3);
    await world.seal([A, B], day, 6);
  }
  await world.closeAll();
});
afterAll(() => world.end());

/** Threads need the built program: they cannot run from sources. */
async function builtCheckers(): Promise<typeof checkersModule> {
  return import(
    pathToFileURL(join(import.meta.dirname, "../../dist/src/archive/verify/checkers.js")).href
  ) as never;
}

function orders() {
  return currentParts(world.archive.leaves()).map(({ files, original }) => ({
    files: files!,
    original,
    isQuick: false,
    organizations: [],
    disabled: [],
  }));
}

describe("parts are checked in several threads", () => {
  test("an error of the store ends its own part with that error, and the threads go on", async () => {
    const { createCheckers } = await builtCheckers();
    const away = new Error("The store is away.");
    const [bad, ...good] = orders();
    const checkers = createCheckers(
      {
        read: async (path, range) => {
          if (path === bad!.files.data) throw away;
          return world.store.read(path, range);
        },
        stat: (path) => world.store.stat(path),
      },
      2,
    );
    try {
      const answers = await Promise.allSettled(
        [bad!, ...good, ...good].map((order) => checkers.check(order)),
      );
      expect(answers[0]).toMatchObject({ status: "rejected" });
      expect((answers[0] as PromiseRejectedResult).reason).toBe(away);
      expect(answers.slice(1)).toEqual(
        answers.slice(1).map(() => ({ status: "fulfilled", value: expect.objectContaining({ events: 6 }) })),
      );
      expect((await checkers.check(good[0]!)).findings).toEqual([]);
    } finally {
      await checkers.close();
    }
  });

  test("the program finds in threads what one thread finds, in the order of the log", async () => {
    const parts = world.archive.leaves().filter(isPart);
    const flipped = join(world.storeFolder, parts[1]!.data);
    const bytes = readFileSync(flipped);
    bytes[bytes.length >> 1]! ^= 1;
    writeFileSync(flipped, bytes);
    rmSync(join(world.storeFolder, parts[3]!.manifest));
    const alone = await world.verify();
    const { code, stdout } = await runProgram([
      ...["archive", "verify", "--store", world.storeFolder, "--key", world.key, "--json"],
    ]);
    expect(code).toBe(1);
    const threaded = JSON.parse(stdout);
    expect(threaded.findings).toEqual(alone.findings);
    expect(threaded.findings.length).toBeGreaterThan(2);
    expect(threaded.days).toEqual({ valid: 3, total: 5 });
    expect(threaded.events).toEqual(alone.events);
  });
});

test("findings beyond the limit are counted", () => {
  const findings = createFindings();
  for (let at = 0; at < 10_003; at++) findings.expect("lines", false, `line ${at}`, "INVALID");
  expect([findings.list.length, findings.leftOut]).toEqual([10_000, 3]);
});
