// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { temporaryFolder } from "../journal/support.ts";
import { runMain } from "../support/world.ts";

describe("the demo", () => {
  let folder: ReturnType<typeof temporaryFolder>;
  beforeEach(() => {
    folder = temporaryFolder();
  });
  afterEach(() => folder.remove());

  test("leaves a config with which the other commands work, in a folder that it makes", async () => {
    const directory = join(folder.path, "new", "demo");
    const args = ["demo", "--directory", directory, "--port", "0", "--events", "500", "--organizations", "3"];
    // New events are shown with the names of their organizations.
    const newEvent = /^\S+Z {2}[a-z]+-[a-z]+-\d/m;
    const stop = new AbortController();
    let output = "";
    const demo = await runMain(
      [...args, "--live", "5"],
      {},
      {
        signal: stop.signal,
        onOutput(text) {
          output += text;
          if (newEvent.test(output) && output.includes("tidemark status")) stop.abort();
        },
      },
    );
    expect(demo.code).toBe(0);
    expect(demo.stdout).toMatch(/\d+ events of history were exported\./);
    expect(demo.stdout.match(/of history/g)).toHaveLength(1);
    const config = join(directory, "tidemark.yaml");
    expect(demo.stdout).toContain(`tidemark status --config ${config}`);
    expect(existsSync(config)).toBe(true);
    expect(readFileSync(config, "utf8")).not.toContain(readFileSync(join(directory, "api-key"), "utf8"));
    const status = await runMain(["status", "-c", config]);
    expect([status.code, status.stdout]).toEqual([0, expect.stringContaining("demo")]);
    const coverage = await runMain(["coverage", "-c", config]);
    expect([coverage.code, coverage.stdout]).toEqual([0, expect.stringContaining("organizations")]);
    // Delivered events are trimmed, so what is left to show differs; tap ends because no process is running.
    for (const sink of [[], ["--sink", "disk"]])
      expect(await runMain(["tap", ...sink, "--from", "beginning", "-n", "3", "-c", config])).toMatchObject({
        code: 0,
      });
  });

  test("ends after as many seconds as it is given", async () => {
    const args = [
      "demo",
      "--directory",
      folder.path,
      "--port",
      "0",
      "--events",
      "10",
      "--organizations",
      "1",
    ];
    const demo = await runMain([...args, "--seconds", "1"]);
    expect([demo.code, demo.stdout]).toEqual([0, expect.stringContaining("Stopped.")]);
  });
});
