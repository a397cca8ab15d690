import { PassThrough } from "node:stream";
import { Command } from "commander";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Io } from "../../src/commands/io.ts";
import { registerStatus } from "../../src/commands/status.ts";
import { openStateForReading } from "../../src/journal/database.ts";
import { storeLive } from "../../src/journal/view/live.ts";
import { createView } from "../../src/journal/view/view.ts";
import { fillSmall, liveOf, makeState, NOW_MS, type TestState } from "./state.ts";

let state: TestState;
beforeAll(async () => {
  state = makeState();
  await fillSmall(state);
  await storeLive(state.db, liveOf(state.clock), NOW_MS);
});
afterAll(() => state.close());

async function run(args: readonly string[], more: Partial<Io> = {}): Promise<string> {
  const stdout = Object.assign(new PassThrough(), { columns: 90, rows: 40 });
  let written = "";
  stdout.on("data", (chunk) => {
    written += chunk;
  });
  const io: Io = {
    stdout,
    stderr: new PassThrough(),
    stdin: new PassThrough(),
    env: {},
    signal: new AbortController().signal,
    interactive: false,
    setExitCode() {},
    ...more,
  };
  const program = new Command().exitOverride();
  registerStatus(program, io, async () => {
    const db = openStateForReading(state.file);
    return {
      view: createView(db, null, state.options),
      async close() {
        db.close();
      },
    };
  });
  await program.parseAsync(["status", ...args], { from: "user" });
  return written;
}

describe("tidemark status", () => {
  it("shows accounts, sinks, alarms and the worst organizations, beside the running process", async () => {
    const text = await run([]);
    expect(text).toContain(
      "Tidemark 1.2.3, up 1h. siem is paused, 1m behind (28 events). siem refused 2 events.",
    );
    expect(text).toContain("critical sink_paused siem: The destination says 403.");
    expect(text).toMatch(/^acme +reading +2 \+ 1 aside +2h +1 +87d/m);
    expect(text).toMatch(/^siem +splunk_hec +paused 1h +28 +1m +40 +2$/m);
    expect(text).toMatch(/^Cirrus Clinic +refused/m);
    expect(text.split("\n").every((line) => line.length <= 200)).toBe(true);
    expect(text).not.toContain("\x1b");
  });

  it("prints the same as JSON", async () => {
    const { status, sinks, organizations } = JSON.parse(await run(["--json", "--top", "2"]));
    expect(status.totals.events).toBe(40);
    expect(sinks.map(({ name }: { name: string }) => name)).toEqual(["lake", "siem"]);
    expect(organizations.rows).toHaveLength(2);
  });

  it("watches on a screen of its own, and gives the terminal back", async () => {
    const stop = new AbortController();
    const stdout = Object.assign(new PassThrough(), { columns: 90, rows: 12 });
    let written = "";
    stdout.on("data", (chunk) => {
      written += chunk;
      if (written.split("\x1b[H").length > 2) stop.abort();
    });
    await run(["--watch", "0.01"], { stdout, interactive: true, signal: stop.signal });
    expect(written.startsWith("\x1b[?1049h")).toBe(true);
    expect(written.endsWith("\x1b[?1049l")).toBe(true);
    const frame = written.split("\x1b[H")[1]!;
    expect(frame.split("\n").length).toBeLessThanOrEqual(12);
    expect(frame).toContain("\x1b[31m");
  });

  it("refuses an interval that is none", async () => {
    await expect(run(["--watch", "soon"])).rejects.toThrow(/above 0/);
  });
});
