import { readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { DecisionNeededError, RetryableError } from "../../src/core/errors.ts";
import type { Sink } from "../../src/core/sink.ts";
import { nodeFileSystem } from "../../src/sinks/file/system.ts";
import { makeEvents } from "../support/events.ts";
import { linesIn, linesOf, makeFolder, namesIn, openFile, put, textOf } from "./file-support.ts";

/** Other programs cut, remove or replace a file while the sink has it open (R23). */
describe("a file that another program changes", () => {
  const events = makeEvents(9);
  let folder: ReturnType<typeof makeFolder>;
  let directory: string;
  let sink: Sink;

  beforeEach(async () => {
    folder = makeFolder();
    directory = join(folder.path, "events");
    sink = await openFile(directory, { path: "all" });
  });
  afterEach(async () => {
    await sink.close();
    folder.remove();
  });

  const pathOf = () => join(directory, namesIn(directory)[0]!);
  const reopened = async (committed: Awaited<ReturnType<typeof put>>) => {
    await sink.close();
    sink = await openFile(directory, { path: "all" }, { committed });
  };

  test("R23: a file that was cut is not written to again; the next opening names it", async () => {
    const committed = await put(sink, events.slice(0, 3));
    const path = pathOf();
    truncateSync(path, 10);
    await expect(put(sink, events.slice(3, 6))).rejects.toThrow(RetryableError);
    expect(readFileSync(path)).toHaveLength(10);
    await expect(reopened(committed)).rejects.toThrow(DecisionNeededError);
  });

  test("R23: events go to a new file after a file was removed", async () => {
    const committed = await put(sink, events.slice(0, 3));
    rmSync(pathOf());
    await expect(put(sink, events.slice(3, 6))).rejects.toThrow(
      /removed, moved or replaced .* opens its directory again and goes on with what it finds there/,
    );
    await reopened(committed);
    await put(sink, events.slice(3, 6));
    expect(linesIn(directory)).toEqual(textOf(events.slice(3, 6)));
  });

  test("R23: a file that was moved keeps its events, and the next ones go to a new file", async () => {
    const committed = await put(sink, events.slice(0, 3));
    const moved = join(folder.path, "moved.jsonl");
    renameSync(pathOf(), moved);
    await expect(put(sink, events.slice(3, 6))).rejects.toThrow(RetryableError);
    await reopened(committed);
    await put(sink, events.slice(3, 6));
    expect([...linesOf(moved), ...linesIn(directory)]).toEqual(textOf(events.slice(0, 6)));
  });

  test("R23: a file in the place of a moved one is not taken for it", async () => {
    const committed = await put(sink, events.slice(0, 3));
    const path = pathOf();
    renameSync(path, join(folder.path, "moved.jsonl"));
    writeFileSync(path, "");
    await expect(put(sink, events.slice(3, 6))).rejects.toThrow(RetryableError);
    expect(readFileSync(path)).toHaveLength(0);
    await expect(reopened(committed)).rejects.toThrow(DecisionNeededError);
  });

  test("R23: a file that is removed during a write does not count as written", async () => {
    const committed = await putWhile((path) => rmSync(path));
    await reopened(committed);
    await put(sink, events.slice(3, 6));
    expect(linesIn(directory)).toEqual(textOf(events.slice(3, 6)));
  });

  test("R23: a file that is moved during a write does not keep what goes to the new one", async () => {
    const moved = join(folder.path, "moved.jsonl");
    const committed = await putWhile((path) => renameSync(path, moved));
    await reopened(committed);
    await put(sink, events.slice(3, 6));
    expect([...linesOf(moved), ...linesIn(directory)]).toEqual(textOf(events.slice(0, 6)));
  });

  test("R23: no file of a batch that failed keeps its events, whatever is moved before the next try", async () => {
    await sink.close();
    const apart = join(folder.path, "apart");
    sink = await openFile(apart, { path: "{event_type}" });
    const [first, second] = ["user_create", "user_delete"].map((eventType) =>
      makeEvents(3).map((event) => ({ ...event, eventType })),
    ) as [typeof events, typeof events];
    await put(sink, [...first.slice(0, 1), ...second.slice(0, 1)]);
    const [one, two] = namesIn(apart).map((name) => join(apart, name)) as [string, string];
    const before = readFileSync(two);
    renameSync(one, join(folder.path, "moved.jsonl"));
    await expect(put(sink, [...first.slice(1), ...second.slice(1)])).rejects.toThrow(RetryableError);
    expect(readFileSync(two)).toEqual(before);
  });

  /** Three events, and three more that fail because of a change during their write. */
  async function putWhile(change: (path: string) => void): Promise<Awaited<ReturnType<typeof put>>> {
    let changes = false;
    const system: typeof nodeFileSystem = {
      ...nodeFileSystem,
      async open(path, flags) {
        const file = await nodeFileSystem.open(path, flags);
        return {
          ...file,
          async write(buffer, position) {
            if (changes && path.endsWith(".jsonl")) change(path);
            return file.write(buffer, position);
          },
        };
      },
    };
    const committed = await put(sink, events.slice(0, 3));
    await sink.close();
    sink = await openFile(directory, { path: "all" }, { committed, system });
    changes = true;
    await expect(put(sink, events.slice(3, 6))).rejects.toThrow(RetryableError);
    return committed;
  }
});
