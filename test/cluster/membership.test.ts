import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { useKafka } from "../support/kafka-suite.ts";
import { startProgram } from "../support/program.ts";
import { newCluster } from "./kafka-support.ts";

const suite = await useKafka();
/** Fetches that return at once let no timer of their process run, so the process is watched from outside. */
const LEAVE_MS_MAX = 60_000;

describe.skipIf(suite.skip)("membership in the group", () => {
  async function saidBy(driver: string): Promise<unknown> {
    const { name } = await newCluster(suite.address, 1);
    const program = startProgram([suite.address, name], {}, join(import.meta.dirname, driver));
    const late = setTimeout(() => program.child.kill("SIGKILL"), LEAVE_MS_MAX);
    const code = await program.ended();
    clearTimeout(late);
    return { said: program.stdout(), code, stderr: program.stderr() };
  }

  test("C13 a machine that leaves while a broker comes or goes ends", async () => {
    expect(await saidBy("leaving-driver.js")).toMatchObject({ said: "left\n", code: 0 });
  });

  test("C13 a client that crashed is not started again beside its successor", async () => {
    expect(await saidBy("crash-driver.js")).toMatchObject({ said: "false,false\n", code: 0 });
  });
});
