import { existsSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { isLocked, takeLock } from "../../src/journal/lock.ts";
import { temporaryFolder } from "./support.ts";

describe("R15 the lock of a state file", () => {
  let folder: ReturnType<typeof temporaryFolder>;
  const at = (...names: string[]) => join(folder.path, ...names);
  beforeEach(() => {
    folder = temporaryFolder();
  });
  afterEach(() => folder.remove());

  test("is one lock for the file and for links to it", () => {
    mkdirSync(at("data"));
    writeFileSync(at("data", "state.db"), "");
    symlinkSync(join("data", "state.db"), at("link.db"));
    symlinkSync("link.db", at("second.db"));
    const lock = takeLock(at("second.db"));
    for (const name of [join("data", "state.db"), "link.db", "second.db"])
      expect([name, isLocked(at(name))]).toEqual([name, true]);
    expect(() => takeLock(at("link.db"))).toThrow("Another Tidemark works with");
    lock.release();
    expect(isLocked(at("data", "state.db"))).toBe(false);
  });

  test("is the same before and after a linked state is made", () => {
    mkdirSync(at("data"));
    symlinkSync(join("data", "state.db"), at("first.db"));
    symlinkSync("first.db", at("link.db"));
    const lock = takeLock(at("link.db"));
    expect(existsSync(at("data", "state.db.lock"))).toBe(true);
    writeFileSync(at("data", "state.db"), "");
    expect(isLocked(at("link.db"))).toBe(true);
    lock.release();
  });
});
