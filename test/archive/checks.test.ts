import { appendFileSync, cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createDeletions } from "../../src/archive/deletion/deletion.ts";
import { signCheckpoint } from "../../src/archive/log/checkpoint.ts";
import { filesNamedBy, isPart } from "../../src/archive/log/leaf.ts";
import { newSignerText, parseSigner } from "../../src/archive/log/note.ts";
import { leafHash } from "../../src/archive/log/tree.ts";
import { openDirectory } from "../../src/archive/store/directory.ts";
import { CHECKS, type Check } from "../../src/archive/verify/findings.ts";
import { type VerifyOptions, verifyArchive } from "../../src/archive/verify/verify.ts";
import { systemClock } from "../../src/core/clock.ts";
import { forgePart, type PartForgery, rebuildLog } from "./forge.ts";
import { A, B, DAY, never, ORIGIN, openWorld, type World } from "./world.ts";

/*
 * For each check of `verify` a damage that this check alone finds. With the check disabled the damaged archive
 * passes, so none of them can be left out.
 */
let world: World;
const signer = parseSigner(newSignerText(ORIGIN));
const stranger = parseSigner(newSignerText(ORIGIN));
const ZEROS = "0".repeat(64);

beforeAll(async () => {
  world = await openWorld({ signer });
  await world.events(A, DAY, 0, 3);
  await world.events(B, DAY, 10, 3);
  await world.seal([A, B], DAY, 6);
  await world.closeAll();
  const { archive, store, state } = world;
  const clock = { now: () => world.nowMs, sleep: systemClock.sleep };
  const workFolder = join(world.folder, "deleting");
  const config = { keep: "400d", classes: [] };
  await createDeletions({ archive, store, state, clock, config, workFolder }).hold(
    { case: "Case 17: Miller", organizations: [A], from: null, to: null },
    never,
  );
  rmSync(join(world.storeFolder, ".work"), { recursive: true });
});
afterAll(() => world.end());

const part = () => world.archive.leaves().find(isPart)!;
const newest = () => `log/checkpoint.${world.archive.leaves().length}`;
const forge = (forgery: PartForgery) => (place: string) =>
  forgePart(place, forgery, { by: signer, timeMs: world.nowMs });

interface Damage {
  readonly damage?: (place: string) => void;
  readonly options?: Partial<VerifyOptions>;
}

const damages: { readonly [Name in Check]: Damage } = {
  "checkpoint signature": { options: { key: stranger.verifier } },
  "earlier checkpoint": {
    options: {
      since: Buffer.from(signCheckpoint({ origin: ORIGIN, size: 2, root: leafHash() }, [signer])),
    },
  },
  "numbered checkpoints": {
    damage: (place) => cpSync(join(place, "log/checkpoint.2"), join(place, newest())),
  },
  // A second key that the first one did not confirm, hidden among other entries of its checkpoint (A20).
  "log entries": {
    damage: (place) =>
      rebuildLog(
        place,
        ([first, ...rest]) => [
          first!,
          { kind: "key", key: stranger.verifier.text, previous: signer.verifier.text },
          ...rest,
        ],
        { by: stranger, batches: [world.archive.leaves().length + 1], timeMs: world.nowMs },
      ),
  },
  "log files": { damage: (place) => writeFileSync(join(place, "log/tile/0/000.p/2"), "x") },
  "leaves.jsonl": { damage: (place) => writeFileSync(join(place, "log/leaves.jsonl"), "") },
  "keys.txt": { damage: (place) => writeFileSync(join(place, "keys.txt"), "another key\n") },
  "policy.json": { damage: (place) => writeFileSync(join(place, "policy.json"), "{}") },
  texts: {
    damage(place) {
      const path = join(place, world.archive.leaves().flatMap(filesNamedBy).at(-1)!);
      writeFileSync(path, readFileSync(path, "utf8").replace("Miller", "Muller"));
    },
  },
  cosignatures: {
    damage(place) {
      const other = signCheckpoint({ origin: ORIGIN, size: 1, root: leafHash() }, [stranger]);
      const line = other.trimEnd().split("\n").at(-1)!.replace(ORIGIN, "example.com/stranger");
      for (const path of ["log/checkpoint", newest()]) appendFileSync(join(place, path), `${line}\n`);
    },
  },
  "manifest hash": { damage: forge({ leaf: (leaf) => ({ ...leaf, manifest_sha256: ZEROS }) }) },
  "manifest tree": { damage: forge({ leaf: (leaf) => ({ ...leaf, lines_root: ZEROS }) }) },
  lines: { damage: forge({ leaf: (leaf) => ({ ...leaf, part: "002" }) }) },
  "line hash": { damage: forge({ lineHash: ZEROS }) },
  ranges: { damage: forge({ line: (line) => ({ ...line, offset: 1 }) }) },
  "range hash": { damage: forge({ line: (line) => ({ ...line, stored_sha256: ZEROS }) }) },
  // Another label in the key frame: the secret cannot be read, and nothing else notices.
  frames: {
    damage: forge({
      data(data) {
        data[8]! ^= 1;
        return data;
      },
    }),
  },
  "events tree": { damage: forge({ line: (line) => ({ ...line, events_root: ZEROS }) }) },
  "data file hash": { damage: forge({ leaf: (leaf) => ({ ...leaf, data_sha256: ZEROS }) }) },
  "seek table": {
    damage: forge({
      data(data) {
        data[data.length - 20]! ^= 1;
        return data;
      },
    }),
  },
  "unexpected files": { damage: (place) => writeFileSync(join(place, "events/strange"), "x") },
  "missing files": { damage: (place) => rmSync(join(place, part().data)) },
  age: { options: { maxAgeMs: -1 } },
};

describe("each check of verify is needed", () => {
  test.each(CHECKS)("%s", async (check) => {
    const { damage, options = {} } = damages[check];
    const place = join(world.folder, `check-${check.replaceAll(/\W/g, "-")}`);
    cpSync(world.storeFolder, place, { recursive: true });
    damage?.(place);
    const verify = async (more: Partial<VerifyOptions> = {}) =>
      verifyArchive(await openDirectory(place), {
        key: signer.verifier,
        nowMs: world.nowMs,
        ...options,
        ...more,
      });
    const { findings } = await verify();
    expect(findings.length).toBeGreaterThan(0);
    expect([...new Set(findings.map((finding) => finding.check))]).toEqual([check]);
    expect((await verify({ disabled: [check] })).findings).toEqual([]);
  });
});
