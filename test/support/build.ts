import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";

/** Tests that spawn the program run `dist/`: it is built once before them, unless it is newer than every source. */
export default function setup(): void {
  const built = newest("dist");
  if (built === 0 || newest("src") > built) {
    execFileSync("npx", ["tsc", "-p", "tsconfig.build.json"], { stdio: "inherit" });
  }
}

function newest(folder: string): number {
  if (!existsSync(folder)) return 0;
  const times = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => statSync(join(entry.parentPath, entry.name)).mtimeMs);
  return Math.max(0, ...times);
}
