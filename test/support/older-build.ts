import { execFile, execFileSync } from "node:child_process";
import { mkdirSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { fetchOnce, skipUnless } from "./components.ts";

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, "../..");

/** The program as it was just before a file was added: the path of its script; undefined, with a visible line, where it cannot be had. */
export async function buildBefore(addedFile: string): Promise<string | undefined> {
  const commit = commitBefore(addedFile);
  if (commit === undefined) {
    process.stderr.write(
      `SKIPPED, an older build: the repository's history does not reach back to ${addedFile}\n`,
    );
    return undefined;
  }
  const folder = await fetchOnce("older_build", `tidemark-${commit.slice(0, 12)}`, async (target) => {
    const archive = join(target, "source.tar");
    mkdirSync(target, { recursive: true });
    await run("git", ["archive", "--output", archive, commit], { cwd: ROOT });
    await run("tar", ["-xf", archive, "-C", target]);
    linkModules(target);
    await run("npm", ["run", "emit"], { cwd: target, maxBuffer: 16e6 });
  });
  if (skipUnless("older_build", folder, "TIDEMARK_REQUIRE=older_build builds it once")) return undefined;
  linkModules(folder!);
  return join(folder!, "dist/src/main.js");
}

/** To those of this checkout: the cache may be older than it. */
function linkModules(folder: string): void {
  rmSync(join(folder, "node_modules"), { force: true });
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
}

function commitBefore(file: string): string | undefined {
  try {
    const log = ["log", "--diff-filter=A", "-1", "--format=%H", "--", file];
    const added = execFileSync("git", log, { cwd: ROOT, encoding: "utf8" }).trim();
    if (added === "") return undefined;
    const parent = ["rev-parse", "--verify", "--quiet", `${added}^`];
    return execFileSync("git", parent, { cwd: ROOT, encoding: "utf8" }).trim() || undefined;
  } catch {
    return undefined;
  }
}
