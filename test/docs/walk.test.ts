import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { blocks, ROOT } from "./pages.ts";

/**
 * A newcomer with the README alone: its blocks are run as they are written, in its order, with the built program.
 * Only ports, and the programs that install and build, differ.
 */
const MAIN = join(ROOT, "dist/src/main.js");
const block = (kind: string) =>
  blocks.find((one) => one.page === "README.md" && one.kind === kind)?.text ??
  expect.fail(`no block ${kind}`);

describe("the README's walk from nothing to a replayed dead letter", () => {
  let folder: string;
  let simulator: ChildProcess;
  let ports: { readonly service: string; readonly receiver: string };
  let environment = "";

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "tidemark-walk-"));
    const line = block("sh walk build").trimEnd().split("\n").at(-1)!;
    const [program, ...words] = line.split(" ");
    expect(program).toBe("tidemark");
    const args = words.map((word) => (/^80\d\d$/.test(word) ? "0" : word));
    simulator = spawn(process.execPath, [MAIN, ...args, "--events", "3000", "--json"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const ready = await new Promise<string>((resolve, reject) => {
      simulator.stdout!.once("data", (data: Buffer) => resolve(data.toString()));
      simulator.once("exit", () => reject(new Error("The simulator ended.")));
    });
    const { url, receiver } = JSON.parse(ready) as { url: string; receiver: { url: string } };
    ports = { service: url, receiver: receiver.url };
    writeFileSync(join(folder, "tidemark.yaml"), `${here(block("yaml walk"))}server: { port: 0 }\n`);
  });
  afterAll(async () => {
    if (simulator.exitCode === null) {
      const ended = new Promise((resolve) => simulator.once("exit", resolve));
      simulator.kill("SIGTERM");
      await ended;
    }
    rmSync(folder, { recursive: true, force: true });
  });

  const here = (text: string) =>
    text
      .replaceAll("http://127.0.0.1:8080", ports.service)
      .replaceAll("http://127.0.0.1:8088", ports.receiver);

  /** Runs one block; gives the output and exit code of each of its commands. */
  async function walk(kind: string): Promise<{ code: number; out: string }[]> {
    const lines = here(block(kind)).trimEnd().split("\n");
    environment += lines
      .filter((line) => line.startsWith("export "))
      .join("\n")
      .concat("\n");
    const results: { code: number; out: string }[] = [];
    for (const line of lines.filter((one) => !one.startsWith("export "))) results.push(await shell(line));
    return results;
  }

  function shell(line: string): Promise<{ code: number; out: string }> {
    const script = `tidemark() { "${process.execPath}" "${MAIN}" "$@"; }\n${environment}\n${line}`;
    return new Promise((resolve) => {
      execFile("bash", ["-c", script], { cwd: folder }, (error, stdout) =>
        resolve({ code: error === null ? 0 : Number(error.code), out: stdout }),
      );
    });
  }

  it("goes from a broken sink over a delivered event to a replayed dead letter", async () => {
    const [check, once, status] = await walk("sh walk broken");
    expect([check!.code, check!.out]).toEqual([
      1,
      expect.stringMatching(/FAILED +sink siem: .*answered 401/),
    ]);
    expect([once!.code, once!.out]).toEqual([
      1,
      expect.stringMatching(/siem lacks [\d,]+ events \(paused: .*401: the token is not known here/),
    ]);
    expect(once!.out).toMatch(/Correct url, headers or hmac/);
    expect(status!.out).toMatch(/\d+ events wait for siem/);

    const [delivered, received] = await walk("sh walk repaired");
    expect(delivered!.out).toMatch(/siem \(http, .*\): [\d,]+ events delivered/);
    expect(delivered!.out).toMatch(/siem refused \d+ events?: see "tidemark dead-letters list --sink siem"/);
    const before = (JSON.parse(received!.out) as { events: number }).events;
    expect(before).toBeGreaterThan(2500);

    const [list, , replay, again, empty] = await walk("sh walk replayed");
    expect(list!.out).toContain("event_type user_suspended is not in the schema");
    const refused = Number(/(\d+) events?, the last/.exec(list!.out)![1]);
    expect(replay!.out).toContain(`${refused} dead letter`);
    expect([again!.code, again!.out]).toEqual([0, expect.stringContaining("Nothing is missing.")]);
    expect(empty!.out).toContain("There are no dead letters.");
    const after = (JSON.parse((await shell(`curl -s ${ports.receiver}/`)).out) as { events: number }).events;
    expect(after).toBeGreaterThanOrEqual(before + refused);
  });
});
