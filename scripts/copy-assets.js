// Copies the files that the compiled program reads at run time to dist/, with the same relative paths.
import { cpSync, rmSync } from "node:fs";

for (const path of ["package.json", "src/journal/migrations", "src/server/page"]) {
  rmSync(`dist/${path}`, { recursive: true, force: true });
  cpSync(path, `dist/${path}`, { recursive: true });
}
