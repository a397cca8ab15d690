import {
  closeSync,
  constants,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { nodeFileSystem, type OpenFile, writeAll } from "../../src/sinks/file/system.ts";
import { runs } from "../support/runs.ts";
import { countersOf, makeFolder } from "./file-support.ts";

/* Large writes go past the page cache, in blocks; what comes before the first and after the last does not. */

const MEGABYTE = 1 << 20;

describe("large writes", () => {
  let folder: ReturnType<typeof makeFolder>;
  let path: string;
  const opened: OpenFile[] = [];

  beforeEach(() => {
    folder = makeFolder();
    path = join(folder.path, "events");
  });
  afterEach(async () => {
    for (const file of opened.splice(0)) await file.close();
    folder.remove();
  });

  async function made(): Promise<OpenFile> {
    const file = await nodeFileSystem.open(path, "wx");
    opened.push(file);
    return file;
  }

  test("give the same file as any others, wherever they begin and end", async () => {
    const edge = fc.constantFrom(0, 1, 4095, 4096, 4097);
    const size = fc.oneof(
      fc.nat(9000),
      fc
        .tuple(fc.integer({ min: 1, max: 5 }), edge, fc.boolean())
        .map(([megabytes, more, isLess]) => megabytes * MEGABYTE + (isLess ? -more : more)),
    );
    let run = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(size, { minLength: 1, maxLength: 5 }), async (sizes) => {
        path = join(folder.path, `events-${run++}`);
        const file = await made();
        const wanted: Buffer[] = [];
        let position = 0;
        for (const [index, length] of sizes.entries()) {
          const piece = countersOf(length, index * 1_000_000);
          await writeAll(file, piece, position);
          await file.sync();
          wanted.push(piece);
          position += length;
        }
        expect(readFileSync(path).equals(Buffer.concat(wanted))).toBe(true);
      }),
      { numRuns: runs(15) },
    );
  });

  test("are whole blocks with both ends beside them, each in its place whichever ends first", async (context) => {
    const file = await made();
    if (!canBeDirect(path)) context.skip("the file system cannot do it, or this is not Linux");
    await writeAll(file, countersOf(100), 0);
    const content = countersOf(9 * MEGABYTE + 5);
    let [inside, insideMax] = [0, 0];
    const delays = { before: 60, blocks: 30, after: 0 };
    const spy = await spyOnWrites(async (part, write) => {
      insideMax = Math.max(insideMax, ++inside);
      await sleep(delays[part]);
      return write().finally(() => inside--);
    });
    try {
      await writeAll(file, content, 100);
    } finally {
      spy.end();
    }
    await file.sync();
    expect(readFileSync(path).subarray(100).equals(content)).toBe(true);
    expect([insideMax, spy.calls]).toEqual([3, 3]);
  });

  test.each(["before", "blocks", "after"] as const)(
    "go on where the part %s ended too early",
    async (short) => {
      const file = await made();
      await writeAll(file, countersOf(100), 0);
      const content = countersOf(6 * MEGABYTE + 5);
      const spy = await spyOnWrites((part, write) => {
        const isFirst = part === short && spy.calls <= 3;
        return isFirst ? write(part === "blocks" ? 1 << 19 : 3) : write();
      });
      try {
        await writeAll(file, content, 100);
      } finally {
        spy.end();
      }
      await file.sync();
      expect(readFileSync(path).subarray(100).equals(content)).toBe(true);
    },
  );

  test("fail as a whole when one part fails, and only after the others have ended", async (context) => {
    const file = await made();
    if (!canBeDirect(path)) context.skip("the file system cannot do it, or this is not Linux");
    let inside = 0;
    const spy = await spyOnWrites(async (part, write) => {
      inside++;
      if (part !== "blocks") await sleep(30);
      inside--;
      if (part === "blocks") throw Object.assign(new Error("no space left"), { code: "ENOSPC" });
      return write();
    });
    try {
      await expect(writeAll(file, countersOf(6 * MEGABYTE), 100)).rejects.toThrow("no space left");
      expect([spy.calls, inside]).toEqual([3, 0]);
    } finally {
      spy.end();
    }
  });

  test("go over what was written there before", async () => {
    const file = await made();
    await writeAll(file, Buffer.alloc(6 * MEGABYTE, "old"), 0);
    await file.truncate(MEGABYTE + 77);
    await writeAll(file, Buffer.alloc(3 * MEGABYTE, "new"), 100);
    const wanted = Buffer.concat([Buffer.alloc(100, "old"), Buffer.alloc(3 * MEGABYTE, "new")]);
    expect(readFileSync(path).equals(wanted)).toBe(true);
  });

  test("are seen by every reader of the open file, together with small writes", async () => {
    const file = await made();
    const other = openSync(path, "r+");
    try {
      await writeAll(file, Buffer.alloc(2 * MEGABYTE, "a"), 0);
      expect(readFileSync(path)[MEGABYTE]).toBe(0x61);
      writeSync(other, Buffer.from("b"), 0, 1, MEGABYTE);
      await writeAll(file, Buffer.alloc(2 * MEGABYTE, "c"), 2 * MEGABYTE);
      expect(
        readFileSync(path)
          .subarray(MEGABYTE - 1, MEGABYTE + 2)
          .toString(),
      ).toBe("aba");
    } finally {
      closeSync(other);
    }
  });

  test("go past the page cache where the file system can do that, with a second handle for a few files", async (context) => {
    const paths: string[] = [];
    for (let at = 0; at < 6; at++) {
      path = join(folder.path, `events-${at}`);
      paths.push(path);
      const file = await made();
      if (!canBeDirect(path)) context.skip("the file system cannot do it, or this is not Linux");
      await writeAll(file, Buffer.alloc(3 * MEGABYTE, "x"), 0);
      expect(directHandlesTo(path)).toBe(1);
      await file.sync();
    }
    expect(paths.map(directHandlesTo)).toEqual([1, 1, 1, 1, 0, 0]);
    for (const file of opened.splice(0)) await file.close();
    expect(paths.map(directHandlesTo)).toEqual([0, 0, 0, 0, 0, 0]);
  });

  test("go on when the name of the file is gone", async () => {
    const file = await made();
    renameSync(path, `${path}.moved`);
    await writeAll(file, Buffer.alloc(3 * MEGABYTE, "x"), 0);
    expect(readFileSync(`${path}.moved`)).toHaveLength(3 * MEGABYTE);
  });

  test("never reach another file that has taken the name", async () => {
    const file = await made();
    renameSync(path, `${path}.moved`);
    writeFileSync(path, "somebody else's");
    await writeAll(file, Buffer.alloc(3 * MEGABYTE, "x"), 0);
    expect(readFileSync(path, "utf8")).toBe("somebody else's");
    expect(readFileSync(`${path}.moved`)).toHaveLength(3 * MEGABYTE);
  });
});

type Written = Promise<{ readonly bytesWritten: number }>;
type PartOfWrite = "before" | "blocks" | "after";

/** Lets a test decide about each part of a write; `write` does it, of so many bytes at most. */
async function spyOnWrites(decide: (part: PartOfWrite, write: (bytesMax?: number) => Written) => Written) {
  const any = await open(import.meta.filename);
  const handles = Object.getPrototypeOf(any) as FileHandle;
  await any.close();
  const { write, writev } = handles as unknown as Record<"write" | "writev", (...args: unknown[]) => Written>;
  const counter = { calls: 0 };
  const one = vi.spyOn(handles, "write").mockImplementation(function (this: FileHandle, ...args: unknown[]) {
    const [buffer, offset, length, position] = args as [Uint8Array, number, number, number];
    counter.calls++;
    return decide(position < 4096 ? "before" : "after", (bytesMax = length) =>
      write.call(this, buffer, offset, Math.min(length, bytesMax), position),
    );
  } as FileHandle["write"]);
  const many = vi.spyOn(handles, "writev").mockImplementation(function (
    this: FileHandle,
    ...[buffers, position]: [Uint8Array[], number]
  ) {
    counter.calls++;
    return decide("blocks", (bytesMax) =>
      writev.call(this, bytesMax === undefined ? buffers : [buffers[0]!.subarray(0, bytesMax)], position),
    );
  } as unknown as FileHandle["writev"]);
  return Object.assign(counter, {
    end() {
      one.mockRestore();
      many.mockRestore();
    },
  });
}

function canBeDirect(path: string): boolean {
  if (constants.O_DIRECT === undefined || !existsSync("/proc/self/fdinfo")) return false;
  try {
    closeSync(openSync(path, constants.O_WRONLY | constants.O_DIRECT));
    return true;
  } catch {
    return false;
  }
}

/** By the flags that the kernel shows of our open files. */
function directHandlesTo(path: string): number {
  return readdirSync("/proc/self/fd").filter((fd) => {
    try {
      if (readlinkSync(`/proc/self/fd/${fd}`) !== path) return false;
      const flags = /flags:\s+(\d+)/.exec(readFileSync(`/proc/self/fdinfo/${fd}`, "utf8"))![1]!;
      return (Number.parseInt(flags, 8) & constants.O_DIRECT) !== 0;
    } catch {
      return false;
    }
  }).length;
}
