import { execFile, execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { startServer } from "../stand-ins/server.ts";

const ROOT = join(import.meta.dirname, "../..");

interface Instruction {
  readonly name: string;
  readonly text: string;
}

/** The Dockerfile's instructions, continued lines joined. */
function instructionsOf(file: string): Instruction[] {
  const text = readFileSync(join(ROOT, file), "utf8").replace(/\\\n/g, " ");
  return text
    .split("\n")
    .filter((line) => line.trim() !== "" && !line.startsWith("#"))
    .map((line) => {
      const [, name, rest] = /^([A-Z]+)\s+(.*)$/.exec(line) ?? [];
      if (name === undefined) throw new Error(`Not an instruction: ${line}`);
      return { name, text: rest! };
    });
}

const instructions = instructionsOf("Dockerfile");
const stages = instructions.filter(({ name }) => name === "FROM");
const last = instructions.slice(instructions.lastIndexOf(stages.at(-1)!));
const only = (name: string) =>
  last.filter((instruction) => instruction.name === name).map(({ text }) => text);

describe("the image", () => {
  it("copies from the project only what is there and what .dockerignore lets through", () => {
    const ignore = readFileSync(join(ROOT, ".dockerignore"), "utf8").split("\n");
    const allowed = ignore.filter((line) => line.startsWith("!")).map((line) => line.slice(1));
    expect(ignore).toContain("*");
    const copied = instructions
      .filter(({ name, text }) => name === "COPY" && !text.includes("--from="))
      .flatMap(({ text }) => text.split(/\s+/).slice(0, -1));
    expect(copied).toContain("package-lock.json");
    for (const path of copied) {
      expect(existsSync(join(ROOT, path)), `${path} is missing`).toBe(true);
      expect(
        allowed.some((name) => path === name || path.startsWith(`${name}/`)),
        `${path} is ignored`,
      ).toBe(true);
    }
  });

  it("holds every folder that the program reads beside its own code", () => {
    const { files } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { files: string[] };
    const copies = only("COPY").join("\n");
    for (const path of files.filter((name) => name === "dist")) expect(copies).toContain(path);
  });

  it("compiles native modules in a stage that is left behind", () => {
    expect(stages).toHaveLength(2);
    const build = instructions.slice(0, instructions.indexOf(stages[1]!));
    expect(build.some(({ text }) => text.includes("npm_config_build_from_source=true"))).toBe(true);
    expect(build.some(({ name, text }) => name === "RUN" && text.startsWith("npm ci"))).toBe(true);
    expect(stages[1]!.text).toBe("${NODE_IMAGE}");
    const bases = instructions.filter(({ name }) => name === "ARG").map(({ text }) => text);
    expect(bases).toEqual(["BUILD_IMAGE=node:24-bookworm", "NODE_IMAGE=node:24-bookworm-slim"]);
    expect(only("RUN").join("\n")).not.toMatch(/npm|apt|curl/);
  });

  it("runs as a plain user by number, with one volume, and starts the program", () => {
    expect(only("USER")).toEqual(["1000:1000"]);
    expect(only("VOLUME")).toEqual(["/var/lib/tidemark"]);
    expect(JSON.parse(only("ENTRYPOINT")[0]!)).toEqual(["node", "/app/dist/src/main.js"]);
    expect(JSON.parse(only("CMD")[0]!)).toEqual(["run", "--config", "/etc/tidemark/tidemark.yaml"]);
  });

  it("has a health check that is fine with an answer of 200 and not with anything else", async () => {
    const [check] = only("HEALTHCHECK");
    const [command, ...args] = JSON.parse(/CMD (\[.*\])$/.exec(check!)![1]!) as string[];
    expect(check).toContain("/livez");
    const server = await startServer(() => ({ status: 200, body: { status: "alive" } }));
    const env = { ...process.env, TIDEMARK_LIVEZ: `${server.url}/livez` };
    const exitCode = () =>
      new Promise<number>((resolve) => {
        execFile(command!, args, { env }, (error) => resolve(error ? Number(error.code) : 0));
      });
    expect(await exitCode()).toBe(0);
    expect(server.received.map(({ path }) => path)).toEqual(["/livez"]);
    server.answerAll({ status: 503 });
    expect(await exitCode()).toBe(1);
    await server.close();
    expect(await exitCode()).toBe(1);
  });
});

/** The init container's and the unit's command: what the platform mounts too openly becomes the owner's alone. */
describe("secrets that a platform mounts with a group bit", () => {
  const chart = readFileSync(join(ROOT, "deploy/kubernetes/tidemark/templates/_pod.tpl"), "utf8");
  const unit = readFileSync(join(ROOT, "deploy/systemd/tidemark.service"), "utf8");
  const [withArchive, alone] = [...chart.matchAll(/command: \[sh, -c, "(.*)"\]/g)].map(([, text]) => text!);
  const commands = {
    "the chart": alone!,
    "the chart with an archive": withArchive!,
    "the unit": /ExecStartPre=\/bin\/sh -c '(.*)'/.exec(unit)![1]!,
  };

  it.each(Object.entries(commands))("are copied by %s to files with mode 0400", (_name, command) => {
    const folder = mkdtempSync(join(tmpdir(), "tidemark-secrets-"));
    try {
      const mounted = join(folder, "mounted");
      const target = join(folder, "secrets");
      execFileSync("mkdir", [mounted, `${mounted}-archive`, target]);
      writeFileSync(join(`${mounted}-archive`, "key"), "signing key", { mode: 0o440 });
      // Kubernetes mounts keys as links into a hidden folder.
      execFileSync("mkdir", [join(mounted, "..data")]);
      writeFileSync(join(mounted, "..data", "directory-api-key"), "value", { mode: 0o440 });
      symlinkSync("..data/directory-api-key", join(mounted, "directory-api-key"));
      const script = command
        .replaceAll("/run/tidemark/mounted", mounted)
        .replaceAll("/run/tidemark/secrets", target);
      const env = { ...process.env, RUNTIME_DIRECTORY: target, CREDENTIALS_DIRECTORY: mounted };
      for (const _time of ["first", "after a restart"]) execFileSync("sh", ["-c", script], { env });
      const copy = join(target, "directory-api-key");
      expect(readFileSync(copy, "utf8")).toBe("value");
      expect(statSync(copy).mode & 0o777).toBe(0o400);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
