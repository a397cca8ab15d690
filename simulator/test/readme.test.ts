import { execFile, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Simulator, startSimulator } from "../index.ts";
import { rules } from "./conformance/index.ts";

const file = "simulator/README.md";
const run = promisify(execFile);
const hasCurl = spawnSync("curl", ["--version"]).status === 0;

describe("the simulator's README", () => {
  it("holds every rule that is checked, with the choices", () => {
    const rows = rules.map(({ part, rule, choice }) => `| ${part} | ${rule} | ${choice ?? ""} |`);
    const table = ["| part | rule | our choice |", "|---|---|---|", ...rows].join("\n");
    const marked = /<!-- conformance -->\n([\s\S]*)\n<!-- \/conformance -->/;
    const text = readFileSync(file, "utf8");
    if (process.env.UPDATE_README === "1") {
      writeFileSync(
        file,
        text.replace(marked, () => `<!-- conformance -->\n${table}\n<!-- /conformance -->`),
      );
    }
    const held = marked.exec(readFileSync(file, "utf8"))![1]!;
    expect(unpadded(held), "UPDATE_README=1 writes the table anew").toBe(unpadded(table));
  });

  describe("its curl examples", () => {
    let simulator: Simulator;
    beforeAll(async () => {
      simulator = await startSimulator({
        clock: { start: "2025-03-01T12:00:00Z" },
        apiKey: "demo-key",
        liveEventsPerSecond: 5,
      });
    });
    afterAll(() => simulator.close());

    const blocks = [...readFileSync(file, "utf8").matchAll(/```sh\n([\s\S]*?)```/g)].map(
      (match) => match[1]!,
    );
    const setup = blocks.find((block) => block.startsWith("export "))!;
    const examples = blocks.filter((block) => block.includes("curl "));

    it.skipIf(!hasCurl)("work as printed", async () => {
      expect(examples.length).toBeGreaterThan(3);
      for (const example of examples) {
        const script = `set -e\n${setup}${example}`.replaceAll("http://127.0.0.1:8080", simulator.url);
        const { stdout } = await run("sh", ["-c", script]);
        expect(stdout.length, example).toBeGreaterThan(20);
      }
    });
  });
});

/** The formatter pads cells; what they say counts. */
function unpadded(table: string): string {
  return table
    .replaceAll(/ +/g, " ")
    .replaceAll(/-{3,}/g, "---")
    .replaceAll(/\| ?(---) ?(?=\|)/g, "|---");
}
