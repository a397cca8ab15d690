import { rmSync } from "node:fs";
import { join } from "node:path";
import { createModelChangelog } from "./changelog.ts";
import type { Plan } from "./plan.ts";
import type { Replica } from "./process.ts";
import { randomOf } from "./random.ts";

/** The plan without faults that a cluster does not have: its state has no backups, and its file is a mere copy. */
export function forCluster(plan: Plan): Plan {
  return {
    ...plan,
    faults: plan.faults.filter(
      (fault) => fault.kind !== "restore" && !(fault.kind === "disk" && fault.target === "state"),
    ),
  };
}

/** Two machines that take turns by chance. Now and then the next one has lost its file, or the log was compacted. */
export function createMachines(plan: Plan, directory: string, now: () => number) {
  const random = randomOf(plan.seed, "machines");
  const changelog = createModelChangelog(now);
  changelog.create("simulated", 1);
  return {
    next(): Replica & { readonly file: string } {
      const machine = random.next() < 0.5 ? "one" : "two";
      const file = join(directory, `${machine}.db`);
      if (random.next() < 0.25)
        for (const part of ["", "-wal", "-shm"]) rmSync(`${file}${part}`, { force: true });
      if (random.next() < 0.25) changelog.compact(0);
      return { machine, file, changelog };
    },
  };
}
