import { spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import type { SimulatorOptions } from "../../simulator/index.ts";
import { parseManifest } from "../../src/archive/part/manifest.ts";
import { skipUnless } from "../support/components.ts";
import { startHttpProxy } from "../support/http-proxy.ts";
import { findFsck, findPython, PYTHON_REMEDY } from "../support/tessera.ts";
import { openWorld, type World } from "../support/world.ts";

const fsck = await findFsck();
const python = await findPython();
const skipsPython = skipUnless("python", python, PYTHON_REMEDY);

const JSON_BODY = { "content-type": "application/json" };

let world: World;
afterEach(() => world.close());

async function archived(more = "", options: SimulatorOptions = {}): Promise<string> {
  world = await openWorld(options);
  const made = await world.run([
    "archive",
    "keys",
    "new",
    world.at("archive.key"),
    "--origin",
    "example.com/evidence",
  ]);
  expect(made.code).toBe(0);
  world.configure({
    sinks: [
      `{ name: disk, type: file, directory: ${world.at("events")} }`,
      `{ name: evidence, type: archive, origin: example.com/evidence, key: { file: ${world.at("archive.key")} }, store: { directory: ${world.at("archive")} }, settle: 0s ${more} }`,
    ],
  });
  const ran = await world.run(["run", "--once", "--config", world.at("tidemark.yaml")]);
  expect(ran.stderr).toBe("");
  return made.stdout.trim();
}

test("days for which the service counts more than it returns are named by the run and by verify", async () => {
  world = await openWorld({ optionalEndpoints: true });
  const proxy = await startHttpProxy(world.simulator.insightsUrl);
  try {
    proxy.decide(({ path }) =>
      path.endsWith("/events/count") ? { status: 200, headers: JSON_BODY, body: '{"count":99999}' } : "pass",
    );
    const key = ["archive", "keys", "new", world.at("archive.key"), "--origin", "example.com/evidence"];
    expect((await world.run(key)).code).toBe(0);
    const file = world.configure({
      sinks: [
        `{ name: evidence, type: archive, origin: example.com/evidence, key: { file: ${world.at("archive.key")} }, store: { directory: ${world.at("archive")} }, settle: 0s }`,
      ],
    });
    const { origin } = new URL(world.simulator.insightsUrl);
    writeFileSync(file, readFileSync(file, "utf8").replace(`'${origin}`, `'${proxy.url}`));
    const ran = await world.run(["run", "--once", "--config", file]);
    expect(ran.code).toBe(1);
    expect(ran.stdout).toMatch(/For \d+ archived days of organizations the service returned or counted/);
    expect(ran.stderr).toContain('"kind":"archive_differs"');
    const again = await world.run(["run", "--once", "--config", file]);
    expect([again.code, again.stdout]).toEqual([0, expect.stringContaining("Known to be missing:")]);
    const verified = await world.run(["archive", "verify", "--store", world.at("archive")]);
    expect(verified.code).toBe(0);
    expect(verified.stdout).toMatch(
      /: DIFFERS: the service returned \d+ and counted 99999 events, \d+ are held/,
    );
  } finally {
    await proxy.close();
  }
});

describe("an archive of the simulated service", () => {
  test("holds every event of the closed days, and `archive verify` says so", async () => {
    const key = await archived("", { optionalEndpoints: true });
    const verified = await world.run([
      "archive",
      "verify",
      "--config",
      world.at("tidemark.yaml"),
      "--key",
      key,
      "--json",
    ]);
    expect(verified.stderr).toBe("");
    const result = JSON.parse(verified.stdout);
    expect(result).toMatchObject({ isValid: true, findings: [], isPinned: true });
    // Yesterday's windows are compared once more a day after their end; all days before are closed.
    const today = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10);
    const before = world
      .served()
      .filter((text) => (JSON.parse(text).timestamp as string).slice(0, 10) < today);
    expect(result.events).toBe(before.length);
    expect(result.days.total).toBeGreaterThan(15);
    // Each line has the service's own count, which agrees (A10).
    const lines = readdirSync(world.at("archive/manifests"), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".jsonl"))
      .flatMap((name) => parseManifest(readFileSync(world.at(`archive/manifests/${name}`))))
      .flatMap((entry) => ("line" in entry && entry.line.missing.length === 0 ? [entry.line] : []));
    expect(lines.length).toBeGreaterThan(30);
    for (const { counted, held, state, check } of lines)
      expect([counted, state, check]).toEqual([held, "complete", check ?? "count"]);
    const text = await world.run(["archive", "verify", "--store", world.at("archive")]);
    expect(text.stdout).toMatch(/\d+\/\d+ days valid/);
    expect(text.stdout).toContain("Self-consistent only");
    const again = await world.run(["run", "--once", "--config", world.at("tidemark.yaml")]);
    expect(again.code).toBe(0);
    const second = await world.run([
      "archive",
      "verify",
      "--store",
      world.at("archive"),
      "--key",
      key,
      "--since",
      world.at("archive/log/checkpoint"),
      "--json",
    ]);
    expect(JSON.parse(second.stdout)).toMatchObject({ isValid: true, events: before.length });
  });

  test("proves an event, exports an organization, and reports, with commands alone", async () => {
    const key = await archived();
    const served = world
      .served()
      .toSorted((a, b) => (JSON.parse(a).timestamp < JSON.parse(b).timestamp ? -1 : 1));
    const event = served[10]!;
    const { id, organization, timestamp } = JSON.parse(event);
    const proof = await world.run([
      "archive",
      "prove",
      id,
      "--store",
      world.at("archive"),
      "--organization",
      organization,
      "--day",
      timestamp.slice(0, 10),
    ]);
    expect(proof.stderr).toBe("");
    writeFileSync(world.at("proof.json"), proof.stdout);
    const checked = await world.run(["archive", "verify-proof", world.at("proof.json"), "--key", key]);
    expect(checked).toMatchObject({ code: 0 });
    expect(checked.stdout).toContain(event);
    const exported = await world.run([
      "archive",
      "export",
      "--store",
      world.at("archive"),
      "--organization",
      organization,
      "--from",
      "2000-01-01",
      "--to",
      "2100-01-01",
      "--to-directory",
      world.at("case"),
    ]);
    expect(exported).toMatchObject({ code: 0 });
    const count = Number(/with (\d+) events/.exec(exported.stdout)![1]);
    expect(count).toBeGreaterThan(100);
    const report = await world.run(["archive", "report", "--store", world.at("archive"), "--key", key]);
    expect(report.code).toBe(0);
    expect(report.stdout).toContain('<p class="good">Valid</p>');
    for (const question of ["Is it whole?", "What is held?", "What is missing, and why?", "Who signed it?"])
      expect(report.stdout).toContain(question);
    const wrong = await world.run(["archive", "verify", "--store", world.folder]);
    expect(wrong).toMatchObject({ code: 2 });
    expect(wrong.stderr).toContain("holds no archive");
  });

  test.skipIf(skipsPython)("the stranger's verifier accepts it", async () => {
    const key = await archived();
    const result = spawnSync(python!, [join(import.meta.dirname, "verify.py"), world.at("archive"), key], {
      encoding: "utf8",
    });
    expect(result.stderr + result.stdout).toContain("VALID:");
    expect(result.status).toBe(0);
  });

  test("a key of another origin, or a place that holds another archive, is refused with what to do", async () => {
    await archived();
    const other = await world.run([
      "archive",
      "keys",
      "new",
      world.at("other.key"),
      "--origin",
      "example.com/evidence",
    ]);
    expect(other.code).toBe(0);
    const check = () => world.run(["check", "--online", "--config", world.at("tidemark.yaml")]);
    const fine = (await check()).stdout;
    expect(fine).toMatch(/archive evidence.*\d+ log entries, signed with the key of the config/);
    expect(fine).toContain("no witness is named");
    renameSync(world.at("state.db"), world.at("aside.db"));
    expect(await check()).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/FAILED +archive evidence: .* is ahead of this state \(0 entries\)/),
    });
    renameSync(world.at("aside.db"), world.at("state.db"));
    const config = readFileSync(world.at("tidemark.yaml"), "utf8");
    writeFileSync(world.at("tidemark.yaml"), config.replace("archive.key", "other.key"));
    const ran = await world.run(["run", "--once", "--config", world.at("tidemark.yaml")]);
    expect(ran.stderr).toContain("archive_stopped");
    expect(ran.stderr).toContain("not the one that this archive was signed with");
    expect(ran.code).toBe(1);
    const wrong = await check();
    expect(wrong.code).toBe(1);
    expect(wrong.stdout).toContain("not the one that this archive was signed with");
  });

  test("a store that cannot be written is an alarm, and the run says that the archive could not continue", async () => {
    await archived();
    const config = readFileSync(world.at("tidemark.yaml"), "utf8");
    writeFileSync(world.at("file"), "not a directory");
    writeFileSync(world.at("tidemark.yaml"), config.replace(world.at("archive "), world.at("file ")));
    const ran = await world.run(["run", "--once", "--config", world.at("tidemark.yaml")]);
    expect(ran.code).toBe(1);
    expect(ran.stderr).toContain("archive_failing");
    writeFileSync(world.at("tidemark.yaml"), config);
    expect((await world.run(["run", "--once", "--config", world.at("tidemark.yaml")])).code).toBe(0);
  });

  test.skipIf(skipUnless("fsck", fsck, "set TIDEMARK_REQUIRE=fsck to build it with Go"))(
    "the fsck of Tessera accepts the log of closed days",
    async () => {
      const key = await archived();
      writeFileSync(world.at("key.txt"), key);
      const args = ["--ui=false", "--storage_url", `file://${world.at("archive/log")}/`];
      const checked = spawnSync(fsck!, [...args, "--public_key", world.at("key.txt")], { encoding: "utf8" });
      expect(checked.stderr).toContain("Successfully fsck'd");
    },
  );

  test("A20 keys are rotated and backed up with commands, and the pinned old key still verifies", async () => {
    const key = await archived();
    const config = ["--config", world.at("tidemark.yaml")];
    const passphrase = ["--passphrase-env", "PASSPHRASE"];
    const env = { PASSPHRASE: "correct horse battery" };
    const old = world.at("archive.key");
    const short = await world.run(["archive", "keys", "backup", old, world.at("x"), ...passphrase], {
      env: { PASSPHRASE: "short" },
    });
    expect(short.code).toBe(2);
    const backup = world.at("archive.key.backup");
    expect((await world.run(["archive", "keys", "backup", old, backup, ...passphrase], { env })).stdout).toBe(
      `${key}\n`,
    );
    // The secret itself may contain and end with a plus sign.
    const secret = readFileSync(old, "utf8").trim().split("+").slice(4).join("+");
    expect(secret.length).toBe(44);
    expect(readFileSync(backup, "utf8")).not.toContain(secret);
    const restored = world.at("restored.key");
    await world.run(["archive", "keys", "restore", backup, restored, ...passphrase], { env });
    expect(readFileSync(restored, "utf8")).toBe(readFileSync(old, "utf8"));
    const wrong = await world.run(["archive", "keys", "restore", backup, world.at("y"), ...passphrase], {
      env: { PASSPHRASE: "another passphrase" },
    });
    expect(wrong.code).not.toBe(0);
    expect(wrong.stderr).toContain("The passphrase is wrong, or the backup is damaged");

    const rotated = await world.run(["archive", "keys", "rotate", world.at("second.key"), ...config]);
    expect(rotated.stderr).toBe("");
    expect(rotated.stdout).toContain("The newest key of the log is example.com/evidence+");
    expect(rotated.stdout).toContain("name");
    const refused = await world.run(["run", "--once", ...config]);
    expect(refused.code).not.toBe(0);
    const check = () => world.run(["check", "--online", ...config]);
    expect(await check()).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(
        /FAILED +archive evidence: The log is signed with a newer key, .*name the file of the newer key as `key`/s,
      ),
    });
    const text = readFileSync(world.at("tidemark.yaml"), "utf8");
    writeFileSync(world.at("tidemark.yaml"), text.replace("archive.key", "second.key"));
    expect((await check()).stdout).toMatch(/ok +archive evidence: .* signed with the key of the config/);
    await world.run(["archive", "keys", "new", world.at("third.key"), "--origin", "example.com/evidence"]);
    const files = `${world.at("third.key")} }, previousKey: { file: ${world.at("second.key")}`;
    writeFileSync(world.at("tidemark.yaml"), text.replace(world.at("archive.key"), files));
    expect((await check()).stdout).toMatch(
      /signed with `previousKey`; the next start changes the key to example.com\/evidence\+/,
    );
    writeFileSync(world.at("tidemark.yaml"), text.replace("archive.key", "second.key"));
    expect((await world.run(["run", "--once", ...config])).code).toBe(0);
    const verified = await world.run(["archive", "verify", "--key", key, "--json", ...config]);
    expect(JSON.parse(verified.stdout)).toMatchObject({ isValid: true, isPinned: true });
  });

  test("a change of the key that is refused leaves no key file behind", async () => {
    const key = await archived();
    const config = ["--config", world.at("tidemark.yaml")];
    const rotate = ["archive", "keys", "rotate", world.at("second.key"), ...config];
    renameSync(world.at("archive/log/checkpoint"), world.at("checkpoint"));
    const refused = await world.run(rotate);
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain("has no log/checkpoint");
    expect(existsSync(world.at("second.key"))).toBe(false);
    renameSync(world.at("checkpoint"), world.at("archive/log/checkpoint"));
    expect((await world.run(rotate)).code).toBe(0);
    const verified = await world.run(["archive", "verify", "--key", key, ...config]);
    expect(verified.code).toBe(0);
  });

  test("a change of the key that ends behind its entry keeps the key file, and says how to complete it", async () => {
    const key = await archived();
    const config = ["--config", world.at("tidemark.yaml")];
    const size = Number(readFileSync(world.at("archive/log/checkpoint"), "utf8").split("\n")[1]);
    // The place of the next checkpoint is taken.
    mkdirSync(world.at(`archive/log/checkpoint.${size + 1}`));
    const ended = await world.run(["archive", "keys", "rotate", world.at("second.key"), ...config]);
    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain(`keep ${world.at("second.key")}`);
    expect(existsSync(world.at("second.key"))).toBe(true);
    rmdirSync(world.at(`archive/log/checkpoint.${size + 1}`));
    const text = readFileSync(world.at("tidemark.yaml"), "utf8");
    const checked = await world.run(["check", "--online", ...config]);
    expect(checked.code).toBe(1);
    expect(checked.stdout).toMatch(
      /FAILED +archive evidence: A change of the signing key from .* was interrupted/,
    );
    const old = `key: { file: ${world.at("archive.key")} }`;
    const both = `key: { file: ${world.at("second.key")} }, previousKey: { file: ${world.at("archive.key")} }`;
    writeFileSync(world.at("tidemark.yaml"), text.replace(old, both));
    expect((await world.run(["run", "--once", ...config])).code).toBe(0);
    const verified = await world.run(["archive", "verify", "--key", key, ...config]);
    expect(verified.code).toBe(0);
  });

  test("a change of the key that was interrupted is completed by the same command", async () => {
    const key = await archived();
    const config = ["--config", world.at("tidemark.yaml")];
    const rotate = (file: string) => world.run(["archive", "keys", "rotate", world.at(file), ...config]);
    const size = Number(readFileSync(world.at("archive/log/checkpoint"), "utf8").split("\n")[1]);
    mkdirSync(world.at(`archive/log/checkpoint.${size + 1}`));
    expect((await rotate("second.key")).code).toBe(1);
    rmdirSync(world.at(`archive/log/checkpoint.${size + 1}`));
    const second = readFileSync(world.at("second.key"), "utf8");
    const another = await rotate("third.key");
    expect(another.stderr).toContain("Nothing was signed");
    const again = await rotate("second.key");
    expect(again).toMatchObject({ code: 0, stderr: "" });
    expect(readFileSync(world.at("second.key"), "utf8")).toBe(second);
    expect((await world.run(["archive", "verify", "--key", key, ...config])).code).toBe(0);
    // The key that signs now is no place for a new one.
    expect((await rotate("archive.key")).stderr).toContain("A key is never overwritten");
  });

  test("a change of the key that was killed before its entry is made by the same command; other files stay as they are", async () => {
    const key = await archived();
    const config = ["--config", world.at("tidemark.yaml")];
    const rotate = (file: string) => world.run(["archive", "keys", "rotate", world.at(file), ...config]);
    const made = async (file: string, origin: string) => {
      await world.run(["archive", "keys", "new", world.at(file), "--origin", origin]);
      return readFileSync(world.at(file), "utf8");
    };
    const foreign = await made("foreign.key", "example.com/another");
    expect((await rotate("foreign.key")).stderr).toContain('no key for the origin "example.com/evidence"');
    expect(readFileSync(world.at("foreign.key"), "utf8")).toBe(foreign);
    // What a killed command leaves.
    const second = await made("second.key", "example.com/evidence");
    chmodSync(world.at("second.key"), 0o644);
    expect((await rotate("second.key")).stderr).toContain("only this user can read");
    chmodSync(world.at("second.key"), 0o600);
    renameSync(world.at("archive/log/checkpoint"), world.at("checkpoint"));
    expect((await rotate("second.key")).stderr).toContain("has no log/checkpoint");
    renameSync(world.at("checkpoint"), world.at("archive/log/checkpoint"));
    expect(await rotate("second.key")).toMatchObject({ code: 0, stderr: "" });
    expect(readFileSync(world.at("second.key"), "utf8")).toBe(second);
    const shown = await world.run(["archive", "keys", "show", world.at("second.key")]);
    expect(readFileSync(world.at("archive/keys.txt"), "utf8")).toBe(`${key}\n${shown.stdout}`);
    const text = readFileSync(world.at("tidemark.yaml"), "utf8");
    writeFileSync(world.at("tidemark.yaml"), text.replace("archive.key", "second.key"));
    expect((await rotate("archive.key")).stderr).toContain("its key has signed this log before");
    // Killed before it wrote the key.
    writeFileSync(world.at("third.key"), "", { mode: 0o600 });
    expect(await rotate("third.key")).toMatchObject({ code: 0, stderr: "" });
    expect((await world.run(["archive", "verify", "--key", key, ...config])).code).toBe(0);
  });

  test("holds, prunes and erases with commands, and says what it did", async () => {
    const key = await archived(", keep: 1d");
    const config = ["--config", world.at("tidemark.yaml")];
    const { id } = world.simulator.organizations[0]!;
    const other = world.simulator.organizations[1]!.id;
    const hold = await world.run(["archive", "hold", "add", "Case 17", "--organization", id, ...config]);
    expect(hold.stdout).toMatch(/The hold hold-[0-9a-f]{8} is in force and in the log/);
    const erased = await world.run([
      "archive",
      "erase",
      "--organization",
      other,
      "--reason",
      "contract ended",
      ...config,
    ]);
    expect(erased.stdout).toMatch(/[1-9]\d* events of \d+ parts were erased/);
    expect((await world.run(["archive", "hold", "list", ...config])).stdout).toContain("Case 17");
    const dry = await world.run(["archive", "prune", "--dry-run", ...config]);
    expect(dry.stdout).toMatch(/\d+ parts are past their retention/);
    const pruned = await world.run(["archive", "prune", ...config]);
    expect(pruned.stderr).toBe("");
    expect(pruned.stdout).toMatch(/[1-9]\d* parts were pruned.*[1-9]\d* are on hold and stay/);
    const verified = await world.run(["archive", "verify", "--key", key, "--json", ...config]);
    expect(JSON.parse(verified.stdout)).toMatchObject({ isValid: true, findings: [] });
    const report = await world.run(["archive", "report", "--key", key, ...config]);
    expect(report.stdout).toContain("hold, in force");
  });
});
