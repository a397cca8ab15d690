import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { signLocked } from "../../src/archive/log/locked.ts";
import { parseSigner } from "../../src/archive/log/note.ts";
import { openWorld, type World } from "../support/world.ts";

// These tests run the whole program, as those in test/end-to-end/ do.
let world: World;
let key: string;
let config: string[];
const ORIGIN = "example.com/evidence";

beforeAll(async () => {
  world = await openWorld();
  const file = world.at("archive.key");
  key = (await world.run(["archive", "keys", "new", file, "--origin", ORIGIN])).stdout.trim();
  world.configure({
    sinks: [
      `{ name: evidence, type: archive, origin: ${ORIGIN}, key: { file: ${file} }, store: { directory: ${world.at("archive")} }, settle: 0s }`,
    ],
  });
  config = ["--config", world.at("tidemark.yaml")];
  expect((await world.run(["run", "--once", ...config])).stderr).toBe("");
});
afterAll(() => world.close());

const archive = (...args: string[]) => world.run(["archive", ...args]);
const verify = (...args: string[]) => archive("verify", "--store", world.at("archive"), ...args);

describe("bad input is refused with what is wrong and what to do", () => {
  test.each<[string, () => string[], string]>([
    ["a sample that is no number", () => ["verify", "--sample", "some"], "Write a percentage above 0"],
    ["a sample of nothing", () => ["verify", "--sample", "0%"], "Write a percentage above 0"],
    ["a date in words", () => ["verify", "--from", "last year"], "Write a time such as"],
    ["a day that does not exist", () => ["verify", "--from", "2026-02-31"], "Write a time such as"],
    [
      "days in the wrong order",
      () => ["verify", "--from", "2026-03-02", "--to", "2026-03-01"],
      "--to (2026-03-01) is before --from (2026-03-02)",
    ],
    ["an age without a unit", () => ["verify", "--max-age", "soon"], "Write a duration such as"],
    ["a checkpoint that is not there", () => ["verify", "--since", world.at("nowhere")], "file of --since"],
    ["a key that is none", () => ["verify", "--key", "kyes.txt"], "neither such a key nor a file with one"],
    [
      "a receipt of a quick verification",
      () => ["verify", "--quick", "--receipt", world.at("receipt")],
      "leave out --quick",
    ],
    [
      "a proof that is not there",
      () => ["verify-proof", world.at("nowhere"), "--key", key],
      "cannot be read",
    ],
    [
      "a signing key that is none",
      () => ["keys", "show", world.at("tidemark.yaml")],
      "This is no signing key",
    ],
    ["a signing key that is not there", () => ["keys", "show", world.at("nowhere")], "cannot be read"],
    [
      "a hold with a wrong day",
      () => ["hold", "add", "Case", "--from", "tomorrow", ...config],
      "Write a time",
    ],
    [
      "an erasure with days in the wrong order",
      () => [
        ...["erase", "--organization", "a", "--reason", "r"],
        ...["--from", "2026-03-02", "--to", "2026-03-01", ...config],
      ],
      "is before --from",
    ],
    [
      "a second key in the same file",
      () => ["keys", "new", world.at("archive.key"), "--origin", ORIGIN],
      "A key is never overwritten",
    ],
  ])("%s", async (_name, args, message) => {
    const [command, ...rest] = args();
    const store = command === "verify" ? ["--store", world.at("archive")] : [];
    const { code, stderr, stdout } = await archive(command!, ...store, ...rest);
    expect(stderr).toContain(message);
    expect(stdout).toBe("");
    expect(code).toBe(2);
  });

  test("a proof file that is damaged is invalid, in one line", async () => {
    writeFileSync(world.at("proof.json"), '{"type":"tidemark/proof/v1"}\n');
    const broken = await archive("verify-proof", world.at("proof.json"), "--key", key);
    expect(broken).toMatchObject({ code: 1, stdout: "" });
    expect(broken.stderr).toContain("INVALID: This is no proof file of an archive.");
  });

  test("a directory of the config that is not mounted is named, and is not made", async () => {
    const text = readFileSync(world.at("tidemark.yaml"), "utf8");
    const file = world.at("unmounted.yaml");
    writeFileSync(file, text.replace(world.at("archive "), world.at("mount/archive ")));
    const { code, stderr } = await archive("verify", "--config", file);
    expect(code).toBe(2);
    expect(stderr).toContain("mount the archive's disk");
    expect(existsSync(world.at("mount"))).toBe(false);
  });
});

describe("verify", () => {
  test("says that it checked nothing when the archive has no such day or organization", async () => {
    for (const limit of [
      ["--from", "2001-01-01", "--to", "2001-01-31"],
      ["--organization", "ffffffffffffffffffffffff"],
    ]) {
      const { code, stdout } = await verify(...limit);
      expect(stdout).toContain("NOTHING CHECKED");
      expect(code).toBe(1);
    }
    const { id } = world.simulator.organizations[0]!;
    const some = await verify("--organization", id);
    expect(some.stdout).not.toContain("NOTHING");
    expect(some.code).toBe(0);
  });

  test("A24 names removed files that the store locks, and they are no finding", async () => {
    const copy = world.at("locked");
    cpSync(world.at("archive"), copy, { recursive: true });
    const path = "events/2026/01/01.001.00000000.jsonl.zst";
    mkdirSync(`${copy}/events/2026/01`, { recursive: true });
    writeFileSync(`${copy}/${path}`, "removed");
    const check = () => archive("verify", "--store", copy, "--key", key);
    expect(await check()).toMatchObject({ code: 1, stdout: expect.stringContaining(`${path}: UNEXPECTED`) });
    const untilMs = Date.now() + 86_400_000;
    const signer = parseSigner(readFileSync(world.at("archive.key"), "utf8"));
    writeFileSync(`${copy}/log/locked`, signLocked({ origin: ORIGIN, files: [{ path, untilMs }] }, [signer]));
    const { code, stdout } = await check();
    expect(stdout).toContain(`${path}: LOCKED by the store until ${new Date(untilMs).toISOString()}\n`);
    expect(stdout).toContain("1 files are no longer part of the archive and were not checked");
    expect(code).toBe(0);
    rmSync(copy, { recursive: true });
  });

  test("A29 a receipt skips only files that it names: one of another archive, or of changed files, skips nothing", async () => {
    const receipt = world.at("receipt");
    const read = async () => JSON.parse((await verify("--receipt", receipt, "--json")).stdout).parts;
    const first = await read();
    expect(first.checked).toBe(first.total);
    const lines = readFileSync(receipt, "utf8").trimEnd().split("\n");
    expect(JSON.parse(lines.at(-1)!)).toMatchObject({ origin: ORIGIN });
    // As if it had been interrupted before the last two parts.
    writeFileSync(receipt, `${lines.slice(0, -3).join("\n")}\n`);
    expect((await read()).checked).toBe(2);
    const others = lines.slice(0, -1).map((line) => line.replace(/[0-9a-f]{8}$/, "00000000"));
    writeFileSync(receipt, `${others.join("\n")}\n`);
    expect((await read()).checked).toBe(first.total);
  });

  test("reads a copy that it may not write to, and leaves nothing in it", async () => {
    const copy = world.at("copy");
    cpSync(world.at("archive"), copy, { recursive: true });
    rmSync(`${copy}/.work`, { recursive: true });
    chmodSync(copy, 0o500);
    try {
      expect(await archive("verify", "--store", copy, "--key", key)).toMatchObject({ code: 0 });
      expect(existsSync(`${copy}/.work`)).toBe(false);
    } finally {
      chmodSync(copy, 0o700);
    }
  });

  test("a report of a damaged log is made all the same, and says that it is not valid", async () => {
    const copy = world.at("damaged");
    cpSync(world.at("archive"), copy, { recursive: true });
    const size = Number(readFileSync(`${copy}/log/checkpoint`, "utf8").split("\n")[1]);
    rmSync(`${copy}/log/tile/entries/000.p/${size}`);
    mkdirSync(`${copy}/log/tile/entries/000.p`, { recursive: true });
    const { code, stdout } = await archive("report", "--store", copy, "--key", key);
    expect(code).toBe(1);
    expect(stdout).toContain("Not valid");
    expect(stdout).toContain("the log entries are missing or damaged");
  });
});

test("an erasure that matches nothing says so", async () => {
  const erased = await archive("erase", "--organization", "f".repeat(24), "--reason", "typo", ...config);
  expect(erased.stdout).toContain("Nothing matches");
});

test("an order that the running process cannot carry out fails with 1, and a wrong one with 2", async () => {
  const stop = new AbortController();
  const running = world.run(["run", ...config], { signal: stop.signal });
  try {
    const isRunning = async () => (await world.run(["status", ...config])).stdout;
    await expect.poll(isRunning, { timeout: 120_000 }).not.toContain("is not running");
    const wrong = await archive("hold", "release", "hold-00000000", ...config);
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining("There is no hold")]);
    const place = readFileSync(world.at("archive/log/checkpoint"));
    writeFileSync(world.at("archive/log/checkpoint"), "not the log");
    const failed = await archive("hold", "add", "Case 9", ...config);
    writeFileSync(world.at("archive/log/checkpoint"), place);
    expect([failed.code, failed.stderr]).toEqual([1, expect.stringContaining("Do not repeat the command")]);
  } finally {
    stop.abort(new Error("stopped"));
    await running;
  }
});

test("shards sign with one key, each under the name of its own log", async () => {
  const text = readFileSync(world.at("tidemark.yaml"), "utf8")
    .replace(world.at("archive "), world.at("shards "))
    .replace(world.at("state.db"), world.at("shard.db"));
  writeFileSync(world.at("shard.yaml"), `shard: 0/2\n${text}`);
  const ran = await world.run(["run", "--once", "--config", world.at("shard.yaml")]);
  expect(ran.stderr).toBe("");
  const shown = await archive(
    ...["keys", "show", world.at("archive.key"), "--origin", `${ORIGIN}/shard-0-of-2`],
  );
  const place = world.at("shards/shard-0-of-2");
  expect(readFileSync(`${place}/keys.txt`, "utf8")).toBe(shown.stdout);
  const verified = await archive("verify", "--store", place, "--key", shown.stdout.trim());
  expect(verified).toMatchObject({ code: 0 });
});
