import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { startProgram } from "../support/program.ts";

async function youngBytes(mode: "none" | "set" | "thread" | "kept" | "starting"): Promise<number> {
  const program = startProgram([mode], {}, join(import.meta.dirname, "heap-flags-driver.js"));
  expect(await program.ended(), program.stderr()).toBe(0);
  return Number(program.stdout());
}

describe("the heap's flags", () => {
  test("keep the young generation as small as it begins", async () => {
    expect(await youngBytes("set")).toBeLessThan((await youngBytes("none")) / 4);
  });

  test("are lost when a thread starts, and set again by keepHeapFlags", async () => {
    const kept = await youngBytes("kept");
    expect(kept).toBeLessThan((await youngBytes("thread")) / 4);
    // The size changes by a factor of two with the moment of a collection.
    expect(kept).toBeLessThanOrEqual(2 * (await youngBytes("set")));
  });

  test("hold while a thread starts", async () => {
    expect(await youngBytes("starting")).toBeLessThan((await youngBytes("thread")) / 4);
  });
});
