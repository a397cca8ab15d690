import { execFile } from "node:child_process";
import { copyFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { skipUnless } from "../support/components.ts";
import { findPython, PYTHON_REMEDY } from "../support/tessera.ts";
import { openWorld, type World } from "../support/world.ts";
import { type Line, linesToRun, wordsOf } from "./lines.ts";
import { ROOT } from "./pages.ts";

const shell = promisify(execFile);
const python = await findPython();
const ORIGIN = "example.com/audit-archive";
const ENV = { PASSPHRASE: "correct horse battery staple" };

/** docs/archive.md and docs/auditor.md from the first key to the last rotation, over one archive. */
describe("the commands of the archive's pages", () => {
  let world: World;
  let config: string;
  let publicKey: string;
  let event: { readonly id: string; readonly organization: string; readonly timestamp: string };

  beforeAll(async () => {
    world = await openWorld({ events: 200, days: 6 });
    config = world.configure({
      sinks: [
        `{ name: evidence, type: archive, origin: ${ORIGIN}, key: { file: ${world.at("archive.key")} }, store: { directory: ${world.at("archive")} }, settle: 0s }`,
      ],
    });
  });
  afterAll(() => world?.close());

  /** The example's names become those of this archive. */
  function here(line: string): string {
    const [month] = /^\d{4}-\d\d/.exec(event?.timestamp ?? "2026-01") ?? [];
    return line
      .replace(/\S*\.key(\.backup)?\b/g, (file) => world.at(file))
      .replace("keys.txt", world.at("archive/keys.txt"))
      .replace(/checkpoint-(of|from)-last-year/, world.at("old-checkpoint"))
      .replace("EVENT_ID", event?.id)
      .replace(/\bORG\b/, event?.organization)
      .replace("2026-11-15", event?.timestamp.slice(0, 10))
      .replace("2026-01-01", `${month}-01`)
      .replace("2026-01-31", `${month}-28`)
      .replace(/proof\.json|report\.html|case-17/g, (file) => world.at(file))
      .replace(/'example\.com\/(audit-)?archive\+0123abcd\+AZ…'/, `'${publicKey}'`)
      .replace("0.0.0.0:9466", "127.0.0.1:0")
      .replace("/path/to/archive", world.at("archive"))
      .replace("verify.py", join(ROOT, "test/archive/verify.py"))
      .replace(/events\/2026\S+/, () => world.at(`archive/${dataFile()}`));
  }

  function dataFile(): string {
    // Days without events have a file too.
    const names = readdirSync(world.at("archive"), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".jsonl.zst"))
      .map((name) => ({ name, size: statSync(world.at(`archive/${name}`)).size }));
    return names.toSorted((a, b) => b.size - a.size)[0]!.name;
  }

  /** After the first key, the exporter fills the archive with the closed days. */
  async function fill(keys: string): Promise<void> {
    publicKey = keys.trim();
    const ran = await world.run(["run", "--once", "-c", config], { env: ENV });
    expect([ran.code, ran.stderr]).toEqual([0, ""]);
    copyFileSync(world.at("archive/log/checkpoint"), world.at("old-checkpoint"));
    const texts = world.served().map((text) => JSON.parse(text) as typeof event);
    event = texts.toSorted((a, b) => (a.timestamp < b.timestamp ? -1 : 1))[10]!;
  }

  async function execute({ command }: Line): Promise<void> {
    const [line, target] = here(command).split(" > ");
    const words = wordsOf(line!);
    if (words[0] !== "tidemark") {
      const { stdout } = await shell("bash", ["-ec", `set -o pipefail; ${line}`], { maxBuffer: 1e9 });
      expect(stdout.length).toBeGreaterThan(10);
      return;
    }
    const stop = new AbortController();
    const isServer = words[1] === "witness";
    const needsConfig = words[1] === "archive" && !["keys", "verify-proof"].includes(words[2]!);
    const place = needsConfig || words[3] === "rotate" ? ["-c", config] : [];
    const folder = isServer ? ["--state", world.at("witness")] : [];
    const outcome = await world.run([...words.slice(1), ...folder, ...place], {
      env: ENV,
      signal: stop.signal,
      onOutput: (text) => {
        if (isServer && text.includes("listens on")) stop.abort(new Error("Ctrl-C"));
      },
    });
    expect(outcome.code, `${outcome.stdout}\n${outcome.stderr}`).toBe(0);
    if (target !== undefined) writeFileSync(target, outcome.stdout);
    if (publicKey === undefined) await fill(outcome.stdout);
  }

  it.each(linesToRun("docs/archive.md").map((line) => [line.place, line.command, line] as const))(
    "%s: %s",
    async (_place, _command, line) => execute(line),
  );

  const skips = skipUnless("python", python, PYTHON_REMEDY);
  it
    .skipIf(skips)
    .each(linesToRun("docs/auditor.md").map((line) => [line.place, line.command, line] as const))(
    "%s: %s",
    async (_place, command, line) => execute({ ...line, command: command.replace(/^python3/, python!) }),
  );
});
