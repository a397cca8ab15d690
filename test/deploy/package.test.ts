import { execFileSync, spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";

const ROOT = join(import.meta.dirname, "../..");
const read = (name: string) => readFileSync(join(ROOT, name), "utf8");

describe("the packed tarball", () => {
  let folder: string;
  let files: string[];
  let tarball: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "tidemark-pack-"));
    const output = execFileSync("npm", ["pack", "--json", "--pack-destination", folder], {
      cwd: ROOT,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    const [packed] = JSON.parse(output) as { filename: string; files: { path: string }[] }[];
    files = packed!.files.map(({ path }) => path);
    tarball = packed!.filename;
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it("holds the program, the simulator, migrations, the page and the reference, and no tests", () => {
    for (const wanted of [
      "dist/src/main.js",
      "dist/simulator/index.js",
      "dist/src/journal/migrations/0001-journal.sql",
      "dist/src/server/page/index.html",
      "config/REFERENCE.md",
      "config/schema.json",
    ])
      expect(files).toContain(wanted);
    expect(files.filter((path) => /^(test|src|bench|node_modules)\//.test(path))).toEqual([]);
  });

  /** The binaries that are compiled on Node 20 are those of this clone: compiling them again takes minutes. */
  it("installs without engine warnings, and npx runs the demo from it", () => {
    const user = join(folder, "user");
    mkdirSync(user);
    const npm = (args: string[]) => spawnSync("npm", args, { cwd: user, encoding: "utf8" });
    writeFileSync(join(user, "package.json"), '{ "name": "user", "version": "1.0.0" }');
    const options = ["--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"];
    const install = npm(["install", ...options, join(folder, tarball)]);
    expect([install.status, install.stderr]).toEqual([0, expect.not.stringContaining("EBADENGINE")]);
    for (const name of ["better-sqlite3", "zstd-napi"]) {
      const built = join(ROOT, "node_modules", name, "build");
      const place = join(user, "node_modules", name, "build");
      if (existsSync(built) && !existsSync(place)) symlinkSync(built, place);
    }
    const args = ["demo", "--directory", join(folder, "demo"), "--port", "0", "--events", "300"];
    const npx = (words: string[]) =>
      spawnSync("npx", ["--no-install", "tidemark", ...words], { cwd: user, encoding: "utf8" });
    const demo = npx([...args, "--organizations", "2", "--seconds", "15"]);
    expect([demo.status, demo.stdout]).toEqual([
      0,
      expect.stringMatching(/[1-9]\d* events of history were exported/),
    ]);
    const status = npx(["status", "--config", join(folder, "demo/tidemark.yaml")]);
    expect([status.status, status.stdout]).toEqual([0, expect.stringContaining("demo")]);
  });
});

describe("engines", () => {
  interface Entry {
    readonly dev?: boolean;
    readonly optional?: boolean;
    readonly engines?: { readonly node?: string };
  }
  const lock = JSON.parse(read("package-lock.json")) as { packages: Record<string, Entry> };

  it("no package that is shipped asks for a newer Node than the oldest that is supported", () => {
    const { engines } = JSON.parse(read("package.json")) as { engines: { node: string } };
    const oldest = Number(/>=(\d+)/.exec(engines.node)![1]);
    const newer = Object.entries(lock.packages)
      .filter(([name, { dev, optional }]) => name !== "" && !dev && !optional)
      .filter(([, { engines: needed }]) => {
        const majors = [...(needed?.node ?? "").matchAll(/(\d+)(?:\.[\dx]+)*/g)].map(([, major]) =>
          Number(major),
        );
        return majors.length > 0 && Math.min(...majors) > oldest;
      })
      .map(([name, { engines: needed }]) => `${name} ${needed!.node}`);
    expect(newer).toEqual([]);
  });
});

describe("the release workflow", () => {
  const workflow = parse(read(".github/workflows/release.yml")) as {
    jobs: Record<string, { steps: { run?: string; uses?: string }[]; needs?: string }>;
  };
  const runs = (job: string) =>
    workflow.jobs[job]!.steps.map(({ run, uses }) => run ?? uses ?? "").join("\n");

  it("tests, packs, installs the packed file, builds the image from pinned bases and publishes with provenance", () => {
    expect(runs("test")).toContain(".ci/run");
    expect(runs("pack")).toContain("npm pack");
    expect(runs("pack")).toContain("deploy/sbom.js");
    expect(runs("pack")).toContain("sha256sum");
    expect(runs("install")).toContain("scripts/try-package.sh");
    expect(runs("image")).toContain("imagetools inspect");
    expect(runs("publish")).toContain("npm publish --provenance");
    for (const [job, needed] of [
      ["pack", "test"],
      ["install", "pack"],
      ["image", "install"],
      ["publish", "image"],
    ])
      expect(workflow.jobs[job!]!.needs).toBe(needed);
  });

  it("names files that exist", () => {
    for (const file of [".ci/run", "deploy/sbom.js", "scripts/try-package.sh", "Dockerfile"])
      expect(read(file).length).toBeGreaterThan(0);
  });
});
