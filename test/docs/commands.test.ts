import { execFile, execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import type { Command } from "commander";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Simulator, startSimulator } from "../../simulator/index.ts";
import { createProgram } from "../../src/commands/index.ts";
import { isRun, lines, NOT_RUN, RUN_BY, wordsOf } from "./lines.ts";
import { blocks, pages, proseOf, ROOT } from "./pages.ts";

/** Parses a command line with the program's own parser; nothing is run. */
async function parseOnly(args: readonly string[]): Promise<void> {
  const errors: string[] = [];
  const program = await createProgram({
    stdout: new PassThrough(),
    stderr: new PassThrough(),
    stdin: new PassThrough(),
    env: {},
    signal: new AbortController().signal,
    interactive: false,
    setExitCode: () => {},
  });
  disarm(program, errors);
  try {
    await program.parseAsync([...args], { from: "user" });
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${errors.join("")}`);
  }
}

function disarm(command: Command, errors: string[]): void {
  command.exitOverride().configureOutput({ writeErr: (text) => errors.push(text) });
  for (const child of command.commands) disarm(child, errors);
  if (command.commands.length === 0) command.action(() => {});
}

const { scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
  scripts: Record<string, string>;
};
/** The verifier that the auditors' page speaks of. */
const verifier = readFileSync(join(ROOT, "test/archive/verify.py"), "utf8");
const SERVER_PATHS = /^\/(api\/(alarms|status|imports(\/\d+\/users)?)|metrics|livez|readyz)$/;

/** Every program that the documentation calls, and what is asked of the call. */
const CHECKS: Readonly<Record<string, (words: readonly string[]) => unknown>> = {
  tidemark: (words) => parseOnly(words),
  alias: () => undefined,
  export: (words) => expect(words.every((word) => /^[A-Z0-9_]+=/.test(word))).toBe(true),
  npm: ([command, script]) => {
    expect(["ci", "test", "run", "prune", "audit"]).toContain(command);
    if (command === "run") expect(Object.keys(scripts)).toContain(script);
  },
  node: ([script]) => expect(existsSync(join(ROOT, script!)), script).toBe(true),
  curl: (words) => {
    const url = new URL(words.at(-1)!);
    // The receiver of the README's walk, which walk.test.ts runs.
    if (url.port === "8088") return;
    expect(url.origin).toBe("http://127.0.0.1:9464");
    expect(url.pathname).toMatch(SERVER_PATHS);
  },
  docker: async (words) => {
    const file = words[words.indexOf("-f") + 1];
    if (words[0] === "compose") expect(existsSync(join(ROOT, file!)), file).toBe(true);
    if (words[0] === "build") expect(existsSync(join(ROOT, "Dockerfile"))).toBe(true);
    if (words[0] === "exec") await parseOnly(words.slice(words.indexOf("/app/dist/src/main.js") + 1));
  },
  helm: (words) => expect(existsSync(join(ROOT, words[2]!, "Chart.yaml"))).toBe(true),
  sudo: ([program, ...words]) => {
    expect(["mkdir", "cp", "install", "systemctl"]).toContain(program);
    for (const word of words.filter((name) => name.startsWith("deploy/")))
      expect(existsSync(join(ROOT, word)), word).toBe(true);
  },
  kubectl: () => undefined,
  kcat: (words) => expect(words).toContain("isolation.level=read_committed"),
  printf: (words) => expect(words.join(" ")).toMatch(/TIDEMARK_TOKEN=.*TIDEMARK_READ_TOKEN=/),
  pip: ([command, ...packages]) => {
    expect(command).toBe("install");
    const [, named] = /\(pip install ([^)]+)\)/.exec(verifier)!;
    expect(packages).toEqual(named!.split(" "));
    for (const name of packages) expect(verifier).toMatch(new RegExp(`^(import|from) ${name}\\b`, "m"));
  },
  python3: ([script, ...words]) => {
    expect(script).toBe("verify.py");
    expect(words.length).toBeGreaterThanOrEqual(2);
    expect(words.length).toBeLessThanOrEqual(3);
  },
  zstdcat: ([file]) => expect(file).toMatch(/^events\/\d{4}\/\d{2}\/\d{2}\.\d{3}\.[0-9a-f]{8}\.jsonl\.zst$/),
  jq: (words) => expect(words).toEqual(["."]),
  find: () => undefined,
  cat: () => undefined,
  sort: () => undefined,
  head: () => undefined,
  wc: () => undefined,
};

describe("every command in the documentation", () => {
  it.each(lines.map(({ place, command }) => [place, command]))("%s: %s", async (_place, line) => {
    for (const command of line.split(/ && | \| /)) {
      const [program, ...words] = wordsOf(command.replace(/ > \S+$/, ""));
      const check = CHECKS[program!];
      if (check === undefined) throw new Error(`Nothing checks ${program}.`);
      await check(words);
    }
  });

  it("is run by a test, or on the short list of those that cannot be", () => {
    const missing = lines.filter(isRun).filter((line) => {
      const file = RUN_BY[`${line.page} ${line.kind}`];
      return file === undefined || !readFileSync(join(ROOT, file), "utf8").includes(line.page);
    });
    expect(missing.map(({ place, command }) => `${place}: ${command}`)).toEqual([]);
    for (const [pattern, reason] of NOT_RUN) {
      expect(
        lines.some(({ command }) => pattern.test(command)),
        String(pattern),
      ).toBe(true);
      expect(reason.length).toBeGreaterThan(20);
    }
    for (const name of Object.keys(RUN_BY))
      expect(
        lines.some(({ page, kind }) => `${page} ${kind}` === name),
        name,
      ).toBe(true);
  });

  it("is known to the program where prose speaks of it", async () => {
    const named = [...pages].flatMap(([page, text]) =>
      [...proseOf(text).matchAll(/`tidemark ([^`]+)`/g)].map(([, words]) => ({ page, words: words! })),
    );
    expect(named.length).toBeGreaterThan(5);
    for (const { page, words } of named) {
      await expect(parseOnly(wordsOf(words)), `${page}: tidemark ${words}`).resolves.toBeUndefined();
    }
  });

  it("goes through its own parser here: a wrong option is noticed", async () => {
    await expect(parseOnly(["run", "--twice"])).rejects.toThrow(/unknown option '--twice'/);
    await expect(parseOnly(["dead-letters", "show"])).rejects.toThrow(/missing required argument/);
  });
});

describe("the first export", () => {
  let simulator: Simulator;
  let folder: string;
  const page = blocks.filter((block) => block.page === "docs/first-export.md");
  const practice = (kind: string) => page.find((block) => block.kind === kind)!.text;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "tidemark-first-"));
    const words = wordsOf(practice("sh simulator"));
    simulator = await startSimulator({ apiKey: words[words.indexOf("--api-key") + 1]!, events: 2000 });
  });
  afterAll(async () => {
    await simulator.close();
    rmSync(folder, { recursive: true });
  });

  it("works as written, against the simulator", async () => {
    const here = (text: string) => text.replaceAll("http://127.0.0.1:8080", simulator.url);
    writeFileSync(join(folder, "tidemark.yaml"), here(practice("yaml practice")));
    const program = `tidemark() { "${process.execPath}" "${join(ROOT, "dist/src/main.js")}" "$@"; }`;
    const script = ["set -eu", program, here(practice("sh run"))].join("\n");

    const output = await new Promise<string>((resolve, reject) => {
      execFile("bash", ["-c", script], { cwd: folder }, (error, stdout, stderr) =>
        error ? reject(new Error(`${error.message}\n${stderr}`)) : resolve(stdout),
      );
    });
    expect(output.match(/^CEF:0\|/gm)).toHaveLength(3);
    expect(output).toMatch(/^events\/[0-9a-f]{24}\/.*\.jsonl$/m);
    const exported = Number(output.trimEnd().split("\n").at(-1));
    expect(exported).toBeGreaterThanOrEqual(2000 * 0.9);
  });

  it("shows the config that init writes", () => {
    const init = [join(ROOT, "dist/src/main.js"), "init", "--yes", "--output", "init.yaml"];
    execFileSync(process.execPath, init, { cwd: folder });
    const written = readFileSync(join(folder, "init.yaml"), "utf8");
    const shown = page.find(({ kind }) => kind === "yaml")!.text;
    const plain = (text: string) => text.replaceAll('"', "").split("\n");
    for (const line of plain(shown)) expect(plain(written)).toContain(line);
  });
});
