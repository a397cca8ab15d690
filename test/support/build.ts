import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";

/**
 * Tests that spawn the program run `dist/`. `npm test` has built it; a bare `vitest` builds it here when a
 * source file is newer. Types are not checked: `npm run check` does that.
 */
export default function setup(): void {
  if (Math.max(newest("src"), newest("simulator"), newest("wasm")) <= newest("dist")) return;
  const build = spawnSync("npm", ["run", "emit"], { stdio: ["ignore", "ignore", "inherit"] });
  if (build.status !== 0) console.warn("The build failed; run `npm run build` to see why.");
}

function newest(folder: string): number {
  if (!existsSync(folder)) return 0;
  const times = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => statSync(join(entry.parentPath, entry.name)).mtimeMs);
  return Math.max(0, ...times);
}
