import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { FAMILY_NAMES, type Family } from "./families.ts";
import { generate } from "./generate.ts";
import { live } from "./life.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "100" },
    from: { type: "string", default: "1" },
    seed: { type: "string" },
    long: { type: "boolean", default: false },
    families: { type: "string" },
    log: { type: "boolean", default: false },
  },
});
const folder = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "tidemark-sim-"));
const families = values.families === undefined ? FAMILY_NAMES : (values.families.split(",") as Family[]);
const from = Number(values.seed ?? values.from);
const count = values.seed === undefined ? Number(values.seeds) : 1;
let failed = 0;
const startedMs = performance.now();
for (let seed = from; seed < from + count; seed++) {
  const plan = generate(seed, { long: values.long, families });
  const begun = performance.now();
  const log = values.log
    ? (() => {
        const line = (fields: object, sentence: string) => console.log(sentence, JSON.stringify(fields, (_, v) => (v instanceof Error ? `${v.message} ${String((v as Error).cause ?? "")}` : v)));
        const made = { error: line, warn: line, info: line, debug: line, child: () => made };
        return made;
      })()
    : undefined;
  const result = await live(plan, folder, log).catch((error: unknown) => ({ violations: [{ rule: "program", message: (error as Error).stack ?? String(error) }], digest: "", steps: 0, requests: 0, events: 0, delivered: 0, cause: (error as Error).cause }));
  if (values.seed !== undefined) console.log(JSON.stringify(plan, null, 1));
  if (result.violations.length > 0 || values.seed !== undefined) {
    failed += result.violations.length > 0 ? 1 : 0;
    console.log(`seed ${seed}: ${result.violations.length} violations`, JSON.stringify(result, null, 1), (result as any).cause ?? "");
  }
  if (count <= 50) console.log(seed, `${Math.round(performance.now() - begun)} ms`, result.steps, result.requests, result.events, result.delivered, result.digest.slice(0, 8));
}
console.log(`${count} lives, ${failed} failed, ${Math.round((performance.now() - startedMs) / 1000)} s`);
rmSync(folder, { recursive: true, force: true });
