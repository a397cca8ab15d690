import { execFileSync, spawnSync } from "node:child_process";
import { join } from "node:path";
import { fetchOnce, programOnPath } from "./components.ts";

const FSCK_VERSION = "1.0.4";

/** The log checker of the Tessera project, written in Go by other people; undefined when it was not built. */
export async function findFsck(): Promise<string | undefined> {
  if (!programOnPath("go")) return undefined;
  const folder = await fetchOnce("fsck", `tessera-fsck-${FSCK_VERSION}`, async (target) => {
    const module = `github.com/transparency-dev/tessera/cmd/fsck@v${FSCK_VERSION}`;
    execFileSync("go", ["install", module], { stdio: "inherit", env: { ...process.env, GOBIN: target } });
  });
  return folder && join(folder, "fsck");
}

/** A Python with the packages that the auditor's verifier needs; undefined when there is none. */
export async function findPython(): Promise<string | undefined> {
  const python = programOnPath("python3");
  if (python === undefined) return undefined;
  if (spawnSync(python, ["-c", "import cryptography, zstandard"], { stdio: "ignore" }).status === 0)
    return python;
  const folder = await fetchOnce("python", "python-verifier-1", async (target) => {
    execFileSync(python, ["-m", "venv", target], { stdio: "inherit" });
    const install = ["-m", "pip", "install", "--quiet", "cryptography", "zstandard"];
    execFileSync(join(target, "bin", "python"), install, { stdio: "inherit" });
  });
  return folder && join(folder, "bin", "python");
}

export const PYTHON_REMEDY = "install python3, then `pip install cryptography zstandard`";
