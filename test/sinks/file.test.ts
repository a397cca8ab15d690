import { readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { DecisionNeededError, PausedError, RetryableError } from "../../src/core/errors.ts";
import { type Log, silentLog } from "../../src/core/log.ts";
import type { Sink } from "../../src/core/sink.ts";
import { file } from "../../src/sinks/file/sink.ts";
import { type FileSystem, nodeFileSystem } from "../../src/sinks/file/system.ts";
import { attempt } from "../contract/drive.ts";
import { cefFormat, makeBatch, makeEvent, makeEvents } from "../support/events.ts";
import { createDisk } from "./file-disk.ts";
import {
  linesIn,
  linesOf,
  makeFolder,
  namesIn,
  type Opening,
  openFile,
  put,
  textOf,
} from "./file-support.ts";

const ALL = { path: "all" };

let folder: ReturnType<typeof makeFolder>;
let directory: string;
const opened: Sink[] = [];

beforeEach(() => {
  folder = makeFolder();
  directory = `${folder.path}/events`;
});

afterEach(async () => {
  for (const sink of opened.splice(0)) await sink.close();
  folder.remove();
});

async function open(config: object = ALL, opening: Opening = {}): Promise<Sink> {
  const sink = await openFile(directory, config, opening);
  opened.push(sink);
  return sink;
}

/** Opens, writes one batch and closes. */
async function putOnce(events: Parameters<typeof put>[1], config: object = ALL, opening: Opening = {}) {
  const sink = await openFile(directory, config, opening);
  const committed = await put(sink, events, opening.format);
  await sink.close();
  return committed;
}

function recordingLog() {
  const errors: object[] = [];
  const log: Log = {
    ...silentLog,
    error: (fields, sentence) => errors.push({ sentence, ...fields }),
    child: () => log,
  };
  return { log, errors };
}

describe("paths", () => {
  test("by default a file holds one organization and day", async () => {
    const organization = "5f0c5f0c5f0c5f0c5f0c5f0c";
    await putOnce([makeEvent({ organization, service: "sso" })], {});
    expect(namesIn(directory)).toEqual([`${organization}/2026-03-14.00000001.jsonl`]);
  });

  test("a format that is not JSON makes .log files", async () => {
    await putOnce([makeEvent()], ALL, { format: cefFormat });
    expect(namesIn(directory)).toEqual(["all.00000001.log"]);
  });

  test("R22 hostile values stay inside the directory, each under a name of its own", async () => {
    const hostile = [
      "../../etc/passwd",
      "..",
      ".",
      "/",
      "",
      "A",
      "a",
      "_none",
      "_2e",
      "a\0b",
      "x".repeat(5000),
    ];
    const events = [...hostile, null].map((value, index) =>
      makeEvent({ organization: value, service: value ?? "", index }),
    );
    await putOnce(events, { path: "{organization}/{service}-{event_type}-{account}" });
    const names = namesIn(folder.path).filter((name) => !name.includes(".tidemark"));
    // Absent and empty are the same absent value.
    expect(names).toHaveLength(hostile.length);
    for (const name of names) expect(name).toMatch(/^events\/[a-z0-9_~.-]{1,200}\/[a-z0-9_~.-]{1,230}$/);
    expect(linesIn(directory)).toHaveLength(events.length);
  });

  test.each([
    ["{tenant}/x", /not known/],
    ["/var/log/{date}", /relative/],
    ["{date}/../x", /begin with a dot/],
    [".hidden/{date}", /begin with a dot/],
    ["a//b", /empty/],
    ["{organization}{service}", /run into each other/],
    ["a b\n{date}", /letters, digits/],
  ])("the template %j is refused in the config", (path, reason) => {
    const result = file.config.safeParse({ directory, path });
    expect(result.error?.issues.map((issue) => issue.message).join()).toMatch(reason);
  });
});

describe("rotation", () => {
  test("a file is finished before it grows beyond its size, and its number is never used again", async () => {
    const events = makeEvents(40);
    const committed = await putOnce(events.slice(0, 20), { ...ALL, rotateSize: 1000 });
    await putOnce(events.slice(20), { ...ALL, rotateSize: 1000 }, { committed });
    const names = namesIn(directory);
    expect(names).toHaveLength(14);
    expect(names.at(-1)).toBe("all.00000014.jsonl");
    for (const name of names) expect(readFileSync(`${directory}/${name}`).length).toBeLessThanOrEqual(1000);
    expect(linesIn(directory)).toEqual(textOf(events));
  });

  test("an event larger than a whole file gets one of its own, byte for byte", async () => {
    const large = makeEvent({ bytes: Buffer.from(`{"large":"${"é".repeat(1_500_000)}"}`), index: 1 });
    const events = [makeEvent(), large, makeEvent({ index: 2 })];
    await putOnce(events, { ...ALL, rotateSize: "1MB" });
    expect(namesIn(directory)).toHaveLength(3);
    expect(linesIn(directory)).toEqual(textOf(events));
  });

  test("a file is finished with the first batch after its age", async () => {
    const [first, second, third] = makeEvents(3);
    let nowMs = 1_000_000;
    const sink = await openFile(directory, { ...ALL, rotateAge: "1h" }, { clock: () => nowMs });
    await put(sink, [first!]);
    nowMs += 3_599_999;
    await put(sink, [second!]);
    nowMs += 1;
    await put(sink, [third!]);
    await sink.close();
    expect(linesOf(`${directory}/all.00000001.jsonl`)).toEqual(textOf([first!, second!]));
    expect(linesOf(`${directory}/all.00000002.jsonl`)).toEqual(textOf([third!]));
  });

  test("a change of format begins new files", async () => {
    const events = makeEvents(2);
    const committed = await putOnce([events[0]!]);
    await putOnce([events[1]!], ALL, { committed, format: { ...cefFormat, mediaType: "application/json" } });
    expect(namesIn(directory)).toEqual(["all.00000001.jsonl", "all.00000002.jsonl"]);
  });

  test("beyond ten thousand files in work the least recently written are finished", async () => {
    const disk = createDisk();
    const events = Array.from({ length: 10_050 }, (_, index) =>
      makeEvent({ organization: `o${index}`, index, bytes: Buffer.from(`${index}`) }),
    );
    const sink = await openFile("/events", { path: "{organization}" }, { system: disk });
    await put(sink, events.slice(0, 100));
    await put(sink, events.slice(100, 9_990));
    await put(sink, events.slice(9_990));
    await put(sink, [
      { ...events[0]!, page: 2 },
      { ...events[10_000]!, page: 2 },
    ]);
    await sink.close();
    const names = [...disk.files().keys()];
    expect(names.filter((name) => name.startsWith("/events/o0."))).toHaveLength(2);
    expect(names.filter((name) => name.startsWith("/events/o10000."))).toHaveLength(1);
  });

  test("only so many files are kept open", async () => {
    let now = 0;
    let most = 0;
    const counting: FileSystem = {
      ...nodeFileSystem,
      async open(path, flags) {
        const handle = await nodeFileSystem.open(path, flags);
        most = Math.max(most, ++now);
        return {
          ...handle,
          close: () => {
            now--;
            return handle.close();
          },
        };
      },
    };
    const events = Array.from({ length: 200 }, (_, index) =>
      makeEvent({ organization: `o${index % 100}`, index }),
    );
    const sink = await open({ path: "{organization}", openFiles: 16 }, { system: counting });
    await put(sink, events.slice(0, 100));
    await put(sink, events.slice(100));
    // The ledger, and one that is opened before another is closed.
    expect(most).toBeLessThanOrEqual(16 + 8 + 1);
    expect(linesIn(directory).toSorted()).toEqual(textOf(events).toSorted());
  });
});

describe("compression", () => {
  const GZIP = { ...ALL, rotateSize: 1000, gzip: true };

  test("finished files are compressed, the one in work is not", async () => {
    const events = makeEvents(10);
    await putOnce(events, GZIP);
    const names = namesIn(directory);
    expect(names.map((name) => name.slice("all.0000000".length))).toEqual([
      "1.jsonl.gz",
      "2.jsonl.gz",
      "3.jsonl.gz",
      "4.jsonl",
    ]);
    expect(linesIn(directory)).toEqual(textOf(events));
  });

  test("what was stopped half-way is taken up when the sink is opened again", async () => {
    const events = makeEvents(10);
    const aborted = AbortSignal.abort();
    const committed = await putOnce(events, GZIP, { signal: aborted });
    expect(namesIn(directory).filter((name) => name.endsWith(".jsonl")).length).toBeGreaterThan(1);
    await (await openFile(directory, { ...GZIP, gzip: false }, { committed })).close();
    expect(namesIn(directory).filter((name) => name.endsWith(".gz"))).toHaveLength(3);
    expect(linesIn(directory)).toEqual(textOf(events));
  });

  test("R23 a compressed file of somebody else is not replaced, and the plain file stays", async () => {
    const events = makeEvents(10);
    const { log, errors } = recordingLog();
    const sink = await openFile(directory, GZIP, { log });
    writeFileSync(`${directory}/all.00000001.jsonl.gz`, "not ours");
    await put(sink, events);
    await sink.close();
    expect(readFileSync(`${directory}/all.00000001.jsonl.gz`, "utf8")).toBe("not ours");
    expect(linesOf(`${directory}/all.00000001.jsonl`)).toEqual(textOf(events.slice(0, 3)));
    expect(errors).toHaveLength(1);
  });

  test("a disk too full for compression holds up nothing, and it is done later", async () => {
    const events = makeEvents(20);
    const noRoom: FileSystem = {
      ...nodeFileSystem,
      open: async (path, flags) =>
        path.endsWith(".gz.new") ? fail("ENOSPC") : await nodeFileSystem.open(path, flags),
    };
    const committed = await putOnce(events.slice(0, 10), GZIP, { system: noRoom });
    expect(linesIn(directory)).toEqual(textOf(events.slice(0, 10)));
    await putOnce(events.slice(10), GZIP, { committed });
    expect(namesIn(directory).filter((name) => !name.endsWith(".gz"))).toHaveLength(1);
    expect(linesIn(directory)).toEqual(textOf(events));
  });

  test("compression that failed is tried again after a while, without another finished file", async () => {
    const events = makeEvents(10);
    let failures = 2;
    const noRoom: FileSystem = {
      ...nodeFileSystem,
      open: async (path, flags) =>
        path.endsWith(".gz.new") && failures-- > 0 ? fail("ENOSPC") : await nodeFileSystem.open(path, flags),
    };
    await put(await open(GZIP, { system: noRoom, sleep: async () => {} }), events);
    // Three compressed files and the open one. While one is compressed, its plain file is there too.
    await expect
      .poll(() => namesIn(directory).map((name) => name.endsWith(".gz")), { timeout: 30_000 })
      .toEqual([true, true, true, false]);
    expect(linesIn(directory)).toEqual(textOf(events));
  });

  test("a finished file is not taken for gone while the whole directory is away", async () => {
    const events = makeEvents(10);
    const { log, errors } = recordingLog();
    let isFirst = true;
    const away: FileSystem = {
      ...nodeFileSystem,
      async unlink(path) {
        if (path.endsWith(".gz.new") && isFirst) {
          isFirst = false;
          renameSync(directory, `${directory}.away`);
        }
        await nodeFileSystem.unlink(path);
      },
    };
    const sleep = async () => renameSync(`${directory}.away`, directory);
    const sink = await open(GZIP, { system: away, log, sleep });
    await put(sink, events);
    await expect
      .poll(() => namesIn(folder.path).filter((name) => name.endsWith(".gz")), { timeout: 30_000 })
      .toHaveLength(3);
    // The file that was packed is deleted behind its packed one.
    await expect.poll(() => linesIn(directory), { timeout: 30_000 }).toEqual(textOf(events));
    expect(errors).toEqual([]);
  });
});

describe("whose the directory is", () => {
  const EVENTS = makeEvents(30);

  /** The directory's content, to show that nothing was touched. */
  function snapshot(): Record<string, string> {
    const names = [...namesIn(directory), ".tidemark/ledger"];
    return Object.fromEntries(names.map((name) => [name, readFileSync(`${directory}/${name}`, "utf8")]));
  }

  async function expectDecision(opening: Opening, message: RegExp): Promise<void> {
    // Bytes that opening would otherwise cut off.
    writeFileSync(`${directory}/all.00000001.jsonl`, "half a li", { flag: "a" });
    const before = snapshot();
    const error = await openFile(directory, ALL, opening).then(
      () => undefined,
      (reason) => reason,
    );
    expect(error).toBeInstanceOf(DecisionNeededError);
    expect(error.message).toMatch(message);
    expect(error.choices.length).toBeGreaterThan(0);
    expect(snapshot()).toEqual(before);
  }

  test("R22 a second sink is refused", async () => {
    await putOnce(EVENTS);
    await expectDecision({ name: "other" }, /belongs to the sink "disk"/);
  });

  test("R22 a second sink that has written elsewhere is refused too", async () => {
    const committed = await putOnce(EVENTS);
    await expectDecision(
      { name: "disk", committed: { ...committed, state: { ledger: "x", sequence: 1 } } },
      /belongs/,
    );
  });

  test("R20 a new journal does not go on in the directory of another", async () => {
    await putOnce(EVENTS);
    await expectDecision({ journal: "11111111-9c1d-4a6e-8f30-1d2c3b4a5f60" }, /written from journal/);
  });

  test("R20 a directory that was opened and never written to is taken over by another journal", async () => {
    await (await openFile(directory, ALL, { journal: "22222222-9c1d-4a6e-8f30-1d2c3b4a5f60" })).close();
    await putOnce(EVENTS);
    expect(linesIn(directory)).toEqual(textOf(EVENTS));
  });

  test("R20 R23 a restored, older state is noticed, and nothing is cut", async () => {
    const first = await putOnce(EVENTS.slice(0, 10));
    const second = await putOnce(EVENTS.slice(10, 20), ALL, { committed: first });
    await putOnce(EVENTS.slice(20), ALL, { committed: second });
    await expectDecision({ committed: first }, /older than the directory/);
    await expectDecision({}, /older than the directory/);
  });

  test("R20 a restored, older directory is noticed", async () => {
    const first = await putOnce(EVENTS.slice(0, 10));
    const ledger = readFileSync(`${directory}/.tidemark/ledger`);
    const second = await putOnce(EVENTS.slice(10, 20), ALL, { committed: first });
    writeFileSync(`${directory}/.tidemark/ledger`, ledger);
    await expectDecision({ committed: second }, /older than the state file/);
  });

  test("R20 a directory that is not there although the state knows it is noticed", async () => {
    const committed = await putOnce(EVENTS);
    rmSync(directory, { recursive: true });
    await expect(openFile(directory, ALL, { committed })).rejects.toBeInstanceOf(DecisionNeededError);
    expect(namesIn(folder.path)).toEqual([]);
  });

  test("R20 being ahead by the batches since the last commit of the journal is the normal crash", async () => {
    const committed = await putOnce(EVENTS.slice(0, 10));
    for (const at of [10, 20]) {
      const sink = await openFile(directory, ALL, { committed });
      expect(sink.position).toMatchObject({ page: 1, event: at });
      await put(sink, EVENTS.slice(at, at + 10));
      await sink.close();
    }
    expect((await open(ALL, { committed })).position).toMatchObject({ page: 1, event: 30 });
    expect(linesIn(directory)).toEqual(textOf(EVENTS));
  });

  test("a position of the journal that passed events over is no disagreement", async () => {
    const { position, state } = await putOnce(EVENTS.slice(0, 10));
    const further = { ...position, page: 7, hash: "abcd" };
    expect((await open(ALL, { committed: { position: further, state } })).position).toEqual(position);
  });

  test("before the first batch the directory holds no position", async () => {
    expect((await open()).position).toBeUndefined();
  });

  test("a renamed sink and a moved directory go on", async () => {
    const committed = await putOnce(EVENTS.slice(0, 10));
    const moved = `${folder.path}/moved`;
    renameSync(directory, moved);
    directory = moved;
    const next = await putOnce(EVENTS.slice(10, 20), ALL, { committed, name: "archive" });
    await putOnce(EVENTS.slice(20), ALL, { committed: next, name: "archive" });
    expect(linesIn(moved)).toEqual(textOf(EVENTS));
  });

  test("a sink that was renamed before its first batch goes on in its directory", async () => {
    await (await openFile(directory, ALL, {})).close();
    await putOnce(EVENTS, ALL, { name: "archive" });
    expect(linesIn(directory)).toEqual(textOf(EVENTS));
    await expectDecision({ name: "other" }, /belongs to the sink "archive"/);
  });

  test("a sink that was renamed after its first batch and before its commit is told its way back", async () => {
    await putOnce(EVENTS.slice(0, 10));
    const asked = openFile(directory, ALL, { name: "archive" });
    const error = (await asked.catch((cause: unknown) => cause)) as DecisionNeededError;
    expect(error.choices.join()).toContain("`tidemark sinks rename archive disk`");
    await putOnce(EVENTS.slice(10), ALL, {});
    expect(linesIn(directory)).toEqual(textOf(EVENTS));
  });

  test("R23 a file shorter than committed is reported, never extended", async () => {
    const committed = await putOnce(EVENTS.slice(0, 10));
    truncateSync(`${directory}/all.00000001.jsonl`, 100);
    await expectDecision({ committed }, /^1 file in .* is shorter than what was committed to it: /);
  });

  test("a file that was moved away is reported once, and a new one begun", async () => {
    const committed = await putOnce(EVENTS.slice(0, 10));
    renameSync(`${directory}/all.00000001.jsonl`, `${folder.path}/taken.jsonl`);
    const { log, errors } = recordingLog();
    const next = await putOnce(EVENTS.slice(10, 20), ALL, { committed, log });
    expect(errors).toHaveLength(1);
    await putOnce(EVENTS.slice(20), ALL, { committed: next, log });
    expect(errors).toHaveLength(1);
    expect(namesIn(directory)).toEqual(["all.00000002.jsonl"]);
    expect(linesIn(directory)).toEqual(textOf(EVENTS.slice(10)));
  });

  test("a damaged ledger is noticed; a torn last line is not damage", async () => {
    const sink = await openFile(directory, ALL);
    const committed = await put(sink, EVENTS.slice(0, 10));
    await put(sink, EVENTS.slice(10, 20));
    await sink.close();
    const path = `${directory}/.tidemark/ledger`;
    const lines = readFileSync(path, "utf8").split("\n");
    expect(lines).toHaveLength(5);
    writeFileSync(path, [lines[0], lines[1]!.replace("all", "alt"), ...lines.slice(2)].join("\n"));
    await expectDecision({ committed }, /damaged/);
    writeFileSync(path, [lines[0], lines[1], lines[2], lines[3]!.slice(0, 40)].join("\n"));
    expect((await open(ALL, { committed })).position).toEqual(committed.position);
    expect(linesIn(directory)).toEqual(textOf(EVENTS.slice(0, 10)));
  });

  test("the ledger does not grow without end", async () => {
    const disk = createDisk();
    const sink = await openFile("/events", ALL, { system: disk });
    for (let page = 1; page <= 6000; page++) await put(sink, [makeEvent({ page, bytes: Buffer.from("1") })]);
    await sink.close();
    expect(disk.files().get("/events/.tidemark/ledger")!.length).toBeLessThan(1 << 20);
    expect(disk.files().get("/events/all.00000001.jsonl")!.length).toBe(12_000);
  });
});

describe("errors", () => {
  test("a file of somebody else is passed over, not replaced", async () => {
    const sink = await open();
    writeFileSync(`${directory}/all.00000001.jsonl`, "theirs\n");
    await put(sink, makeEvents(3));
    expect(readFileSync(`${directory}/all.00000001.jsonl`, "utf8")).toBe("theirs\n");
    expect(linesOf(`${directory}/all.00000002.jsonl`)).toHaveLength(3);
  });

  test("short writes are completed", async () => {
    const short: FileSystem = {
      ...nodeFileSystem,
      async open(path, flags) {
        const handle = await nodeFileSystem.open(path, flags);
        return { ...handle, write: (buffer, position) => handle.write(buffer.subarray(0, 7), position) };
      },
    };
    const events = makeEvents(5);
    await putOnce(events, ALL, { system: short });
    expect(linesIn(directory)).toEqual(textOf(events));
  });

  test.each([
    ["ENOSPC", RetryableError],
    ["EDQUOT", RetryableError],
    ["EIO", RetryableError],
    ["EMFILE", RetryableError],
    ["EACCES", PausedError],
    ["EROFS", PausedError],
  ])(
    "R17 %s in the second of two files: the right error, and nothing doubled after opening again",
    async (code, kind) => {
      const events = makeEvents(8);
      const config = { path: "{service}" };
      const committed = await putOnce(events.slice(0, 4), config);
      let opens = 0;
      const failing: FileSystem = {
        ...nodeFileSystem,
        async open(path, flags) {
          const handle = await nodeFileSystem.open(path, flags);
          const fails = path.endsWith(".jsonl") && ++opens === 6;
          return { ...handle, write: fails ? async () => fail(code) : handle.write };
        },
      };
      const sink = await openFile(directory, config, { committed, system: failing });
      const error = await attempt(sink, makeBatch(sink, events.slice(4)));
      expect(error).toBeInstanceOf(kind);
      expect((error as Error).message).toContain(directory);
      expect(await attempt(sink, makeBatch(sink, events.slice(4)))).toBeInstanceOf(RetryableError);
      await sink.close();
      await putOnce(events.slice(4), config, { committed });
      expect(linesIn(directory).toSorted()).toEqual(textOf(events).toSorted());
    },
  );

  test("an abort in flight gives its reason, and the batch is written whole by the next opening", async () => {
    const events = makeEvents(8);
    const controller = new AbortController();
    const aborting: FileSystem = {
      ...nodeFileSystem,
      async syncFolder(path) {
        if (path === directory) controller.abort(new Error("stopped"));
        await nodeFileSystem.syncFolder(path);
      },
    };
    const sink = await open({ path: "{service}/x" });
    await sink.close();
    const second = await openFile(directory, { path: "{service}/x" }, { system: aborting });
    await expect(second.write(makeBatch(second, events), controller.signal)).rejects.toThrow("stopped");
    await second.close();
    await putOnce(events, { path: "{service}/x" });
    expect(linesIn(directory).toSorted()).toEqual(textOf(events).toSorted());
  });

  test("a file where the directory should be is said clearly", async () => {
    writeFileSync(directory, "a file");
    await expect(openFile(directory, ALL)).rejects.toBeInstanceOf(PausedError);
    expect(dirname(directory)).toBe(folder.path);
  });
});

function fail(code: string): never {
  throw Object.assign(new Error(`${code}: made by the test`), { code });
}
