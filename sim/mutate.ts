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
 * compiled and lives its focused lives until one fails. The unchanged program must not break the same promise.
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
  writeFileSync(
    path,
    source.replace(text, () => replacement),
  );
  compile(folder);
  const failure = firstFailure(folder, mutant);
  writeFileSync(path, source);
  if (failure === undefined) {
    console.log(`${rule} (${what}): NOT NOTICED`);
    return false;
  }
  const unchanged = messageOf(".", mutant, failure.seed, join(folder, "plan.json"));
  if (unchanged !== undefined && promiseIn(unchanged) === promiseIn(failure.message)) {
    console.log(`${rule}: seed ${failure.seed} fails without the mutant too: ${unchanged}`);
    return false;
  }
  console.log(`${rule} (${what}): seed ${failure.seed}: ${failure.message}`);
  return true;
}

function compile(folder: string): void {
  const tsc = resolve("node_modules/.bin/tsc");
  spawnSync(tsc, ["-p", "sim/tsconfig.json", "--noCheck"], { cwd: folder, stdio: "ignore" });
}

function firstFailure(folder: string, mutant: Mutant): { seed: number; message: string } | undefined {
  for (let seed = 1; seed <= SEEDS; seed++) {
    const message = messageOf(folder, mutant, seed, join(folder, "plan.json"));
    if (message !== undefined) return { seed, message };
  }
  return undefined;
}

function promiseIn(message: string): string {
  return message.slice(0, message.indexOf(":"));
}

/** The promise that a life breaks with the program in this folder; undefined: none. */
function messageOf(folder: string, { focus }: Mutant, seed: number, plan: string): string | undefined {
  writeFileSync(plan, JSON.stringify(focused(seed, focus)));
  const args = ["dist/sim/main.js", "--plan", plan, "--brief"];
  const life = spawnSync(process.execPath, args, { cwd: folder, encoding: "utf8" });
  return life.status === 0 ? undefined : (life.stdout || life.stderr).trim().slice(0, 250);
}
