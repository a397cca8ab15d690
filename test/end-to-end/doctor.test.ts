import { chmodSync, writeFileSync } from "node:fs";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { CheckFinding } from "../../src/app/check/finding.ts";
import { Sqlite } from "../../src/core/sqlite.ts";
import { freePort } from "../support/ports.ts";
import { compare, linesBelow, openScene, type Scene, type SceneSink } from "./scene.ts";

const TIMEOUT = { timeout: 600_000 };

let scene: Scene;

beforeEach(async () => {
  scene = await openScene();
});
afterEach(() => scene.close());

const disk = (): SceneSink => ({ name: "disk", type: "file", directory: scene.path("events") });

async function examine(...flags: string[]): Promise<{ code: number | null; findings: CheckFinding[] }> {
  const { code, stdout } = await scene.command("doctor", "--json", ...flags);
  const findings = stdout
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as CheckFinding);
  return { code, findings };
}

const wrong = (findings: readonly CheckFinding[]) => findings.filter(({ ok }) => !ok);

test(
  "doctor finds nothing amiss before the first run and after it, and disturbs neither",
  TIMEOUT,
  async () => {
    scene.configure([disk()]);
    const before = await examine();
    expect(wrong(before.findings)).toEqual([]);
    expect(before.code).toBe(0);
    expect(before.findings.map(({ message }) => message).join("\n")).toContain("there is no state file");
    await scene.done("run", "--once");
    const after = await examine();
    expect(wrong(after.findings)).toEqual([]);
    expect(after.code).toBe(0);
    const of = (subject: string) => after.findings.filter((finding) => finding.subject.startsWith(subject));
    expect(of("integrity")[0]!.message).toMatch(/whole: \d+ pages with 2000 events/);
    expect(of("lock")[0]!.message).toContain("its lock is free");
    expect(of("disk").length).toBe(2);
    expect(of("log").length).toBe(1);
    expect(of("backup")[0]).toMatchObject({ warning: true });
    expect(of("account acme").length).toBeGreaterThanOrEqual(4);
    expect(of("sink disk")[0]!.message).toContain("file is ready");
    // Opening the sink has changed nothing about how it goes on.
    await scene.done("run", "--once");
    expect(compare(scene.served(), linesBelow(scene.path("events")))).toEqual({ lost: 0, surplus: 0 });
  },
);

test("check --online before the first run leaves the sinks as new as they were", TIMEOUT, async () => {
  scene.configure([disk()]);
  await scene.done("check", "--online");
  await scene.done("run", "--once");
  await scene.done("check", "--online");
  await scene.done("run", "--once");
  expect(compare(scene.served(), linesBelow(scene.path("events")))).toEqual({ lost: 0, surplus: 0 });
});

test("beside a running process doctor gives its report on the sinks and disturbs none", TIMEOUT, async () => {
  const dead = { name: "dead", type: "http", url: `http://127.0.0.1:${await freePort()}/` };
  scene.configure([disk(), dead]);
  const program = scene.run();
  await scene.caughtUp("disk");
  await scene.becomes("dead", "retrying");
  const { code, findings } = await examine();
  expect(code).toBe(1);
  expect(findings.find(({ subject }) => subject === "lock")!.message).toContain("a process is running");
  expect(findings.find(({ subject }) => subject === "sink disk")).toMatchObject({
    ok: true,
    message: "the running process says: running",
  });
  expect(wrong(findings).map(({ subject }) => subject)).toEqual(["sink dead", "sink dead"]);
  expect(wrong(findings)[0]!.message).toMatch(/retrying.*ECONNREFUSED/);
  expect(wrong(findings)[1]!.message).toContain("ECONNREFUSED");
  await program.kill("SIGTERM");
});

test(
  "doctor names damage, loose permissions, a strange clock and what cannot be reached",
  TIMEOUT,
  async () => {
    scene.configure([disk(), { name: "dead", type: "http", url: `http://127.0.0.1:${await freePort()}/` }]);
    const first = scene.run();
    await scene.caughtUp("disk");
    await first.kill("SIGTERM");
    const db = new Sqlite(scene.state);
    db.exec("UPDATE bodies SET body = zeroblob(length(body)) WHERE page = (SELECT MAX(page) FROM bodies)");
    db.close();
    chmodSync(scene.state, 0o644);
    const secret = scene.path("key");
    writeFileSync(secret, "k", { mode: 0o600 });
    const local = await examine("--offline");
    expect(local.code).toBe(1);
    expect(wrong(local.findings).map(({ subject }) => subject)).toEqual(["state", "integrity", "integrity"]);
    expect(wrong(local.findings)[0]!.message).toContain(`run chmod 600 ${scene.state}`);
    expect(wrong(local.findings)[1]!.message).toMatch(
      /page \d+: the bytes do not match their checksum.*tidemark restore/,
    );
    expect(
      (await examine("--offline", "--quick")).findings.some(({ subject }) => subject === "integrity"),
    ).toBe(false);

    scene.simulator.control.clock.setSkew(-600_000);
    const skewed = await examine();
    expect(skewed.findings.some(({ message, warning }) => warning && /clock is .* ahead/.test(message))).toBe(
      true,
    );
    scene.env.DIRECTORY_API_KEY = "wrong";
    const refused = await examine();
    expect(refused.code).toBe(1);
    expect(wrong(refused.findings).some(({ subject }) => subject.startsWith("account acme"))).toBe(true);
  },
);

test("doctor ends with 2 and says what to fix when the config is wrong", TIMEOUT, async () => {
  scene.configure([disk()], { journal: { budget: "a lot" } });
  const { code, stdout } = await scene.command("doctor");
  expect(code).toBe(2);
  expect(stdout).toMatch(/^FAILED {2}config: .*journal\.budget/ms);
});

test("doctor looks at the permissions of secret files", TIMEOUT, async () => {
  const file = scene.path("token");
  writeFileSync(file, "a-token-of-the-server", { mode: 0o600 });
  scene.configure([disk()], { server: { port: 0, token: { file } } });
  const { code, findings } = await examine("--offline");
  expect(code).toBe(0);
  expect(findings.find(({ subject }) => subject === "secret")!.message).toContain(
    `${file} has safe permissions`,
  );
  chmodSync(file, 0o640);
  const { code: loose, stdout, stderr } = await scene.command("doctor", "--offline");
  expect(loose).toBe(2);
  expect(stdout).toContain(`run chmod 600 ${file}`);
  expect(stdout + stderr).not.toContain("a-token-of-the-server");
});
