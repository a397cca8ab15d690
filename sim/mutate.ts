import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { focused } from "./focus.ts";
import { MUTANTS, type Mutant } from "./mutants.ts";

/** How many seeds a mutant may survive; each is a life of a second. */
const SEEDS = 5;

/**
 * Shows that lives notice broken rules. The sources are copied; each mutant changes one place of the copy, is
 * compiled and lives its focused lives until one fails. The sources as they are have to survive all of them.
 */
export function runMutants(chosen: string | undefined): boolean {
  const folder = mkdtempSync(join(tmpdir(), "tidemark-mutants-"));
  try {
    for (const name of [
      "src",
      "sim",
      "simulator",
      "dist",
      "package.json",
      "tsconfig.json",
      "tsconfig.build.json",
    ])
      cpSync(name, join(folder, name), { recursive: true });
    symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
    const mutants = MUTANTS.filter(({ rule }) => chosen === undefined || chosen.split(",").includes(rule));
    const survivors = mutants.filter((mutant) => !isNoticed(folder, mutant));
    console.log(`${mutants.length - survivors.length} of ${mutants.length} mutants were noticed.`);
    return survivors.length === 0;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function isNoticed(folder: string, mutant: Mutant): boolean {
  const { rule, what, file, text, replacement } = mutant;
  const path = join(folder, file);
  const source = readFileSync(path, "utf8");
  if (source.split(text).length !== 2) {
    console.log(`${rule}: ${file} does not hold the text of the mutant exactly once`);
    return false;
  }
  const before = firstFailure(folder, mutant);
  if (before !== undefined) {
    console.log(`${rule}: seed ${before.seed} fails without the mutant: ${before.message}`);
    return false;
  }
  writeFileSync(
    path,
    source.replace(text, () => replacement),
  );
  compile(folder);
  const after = firstFailure(folder, mutant);
  writeFileSync(path, source);
  compile(folder);
  const outcome = after === undefined ? "NOT NOTICED" : `seed ${after.seed}: ${after.message}`;
  console.log(`${rule} (${what}): ${outcome}`);
  return after !== undefined;
}

function compile(folder: string): void {
  const tsc = resolve("node_modules/.bin/tsc");
  spawnSync(tsc, ["-p", "sim/tsconfig.json", "--noCheck"], { cwd: folder, stdio: "ignore" });
}

function firstFailure(folder: string, { focus }: Mutant): { seed: number; message: string } | undefined {
  for (let seed = 1; seed <= SEEDS; seed++) {
    const plan = join(folder, "plan.json");
    writeFileSync(plan, JSON.stringify(focused(seed, focus)));
    const life = spawnSync(process.execPath, ["dist/sim/main.js", "--plan", plan, "--brief"], {
      cwd: folder,
      encoding: "utf8",
    });
    if (life.status !== 0) return { seed, message: (life.stdout || life.stderr).trim().slice(0, 250) };
  }
  return undefined;
}
