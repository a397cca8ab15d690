import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { useKafka } from "../support/kafka-suite.ts";
import { startProgram } from "../support/program.ts";
import { newCluster } from "./kafka-support.ts";

const suite = await useKafka();
/** Fetches that return at once let no timer of their process run, so the process is watched from outside. */
const LEAVE_MS_MAX = 60_000;

describe.skipIf(suite.skip)("membership in the group", () => {
  test("C13 a machine that leaves while a broker comes or goes ends", async () => {
    const { name } = await newCluster(suite.address, 1);
    const program = startProgram([suite.address, name], {}, join(import.meta.dirname, "leaving-driver.js"));
    const late = setTimeout(() => program.child.kill("SIGKILL"), LEAVE_MS_MAX);
    const code = await program.ended();
    clearTimeout(late);
    expect([program.stdout(), code], program.stderr()).toEqual(["left\n", 0]);
  });
});
