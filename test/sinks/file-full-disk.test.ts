import { spawnSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { afterEach, describe, expect, test } from "vitest";
import { RetryableError } from "../../src/core/errors.ts";
import { file } from "../../src/sinks/file/sink.ts";
import { drive } from "../contract/drive.ts";
import { makeEvents } from "../support/events.ts";
import { linesIn, makeFolder, textOf } from "./file-support.ts";

const folder = makeFolder();
const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=2m", "tmpfs", folder.path]).status === 0;
if (!mounted) {
  process.stderr.write(
    "SKIPPED, the full disk: mounting a tmpfs is not allowed here (it needs root on Linux)\n",
  );
  folder.remove();
}

afterEach(() => {
  spawnSync("umount", [folder.path]);
  folder.remove();
});

describe.skipIf(!mounted)("a full disk", () => {
  test("R17 is said clearly, and after room was made every event is there once, over several files", async () => {
    // Enough for the first batches, too little for all of them.
    const ballast = `${folder.path}/ballast`;
    writeFileSync(ballast, Buffer.alloc(1_700_000));
    const events = makeEvents(2400);
    let faults = 0;
    const driven = await drive(
      { definition: file, config: { directory: `${folder.path}/events`, path: "{service}" } },
      events,
      {
        batchEvents: 100,
        onError() {
          if (++faults === 3) rmSync(ballast);
        },
      },
    );
    expect(driven.errors.length).toBeGreaterThanOrEqual(3);
    for (const error of driven.errors) {
      expect(error).toBeInstanceOf(RetryableError);
      expect(error.message).toContain("No space is left on the file system of");
      expect((error as RetryableError).remedy).toContain("Free space");
    }
    expect(linesIn(`${folder.path}/events`).toSorted()).toEqual(textOf(events).toSorted());
  });
});
