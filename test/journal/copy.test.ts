import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { nameTwice, publish } from "../../src/journal/copy.ts";
import { temporaryFolder } from "./support.ts";

describe.each(["EPERM", "ENOTSUP", "EOPNOTSUPP"])("on a file system without hard links (%s)", (code) => {
  let work: ReturnType<typeof temporaryFolder>;
  let [temporary, target] = ["", ""];
  const link = (): never => {
    throw Object.assign(new Error("link"), { code });
  };

  beforeEach(() => {
    work = temporaryFolder();
    mkdirSync(join(work.path, "copies"));
    temporary = join(work.path, "copies", "copy.db.tmp");
    target = join(work.path, "copies", "copy.db");
    writeFileSync(temporary, "whole");
  });
  afterEach(() => work.remove());

  test("a copy gets its name, and replaces nothing", () => {
    publish(temporary, target, 0o600, link);
    expect(readdirSync(join(work.path, "copies"))).toEqual(["copy.db"]);
    expect(statSync(target).mode & 0o777).toBe(0o600);
    writeFileSync(temporary, "another");
    expect(() => publish(temporary, target, 0o600, link)).toThrow(/nothing is overwritten/);
    expect(readFileSync(target, "utf8")).toBe("whole");
  });

  test("a file that is set aside keeps its name, and replaces nothing", () => {
    nameTwice(temporary, target, link);
    expect(readdirSync(join(work.path, "copies"))).toEqual(["copy.db", "copy.db.tmp"]);
    writeFileSync(temporary, "another");
    expect(() => nameTwice(temporary, target, link)).toThrow(/EEXIST/);
    expect(readFileSync(target, "utf8")).toBe("whole");
  });
});

test("a link that fails for another reason is an error", () => {
  const link = (): never => {
    throw Object.assign(new Error("no space"), { code: "ENOSPC" });
  };
  expect(() => nameTwice("a", "b", link)).toThrow("no space");
});
