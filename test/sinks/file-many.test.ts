import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test } from "vitest";
import { linesIn, makeFolder, namesIn } from "./file-support.ts";

/* Batches that go to very many files at once, which threads of the built program write. */

const DRIVER = fileURLToPath(new URL("file-driver.js", import.meta.url));
const folder = makeFolder();
const directory = `${folder.path}/events`;
let child: ChildProcess | undefined;
afterEach(() => {
  child?.kill("SIGKILL");
  folder.remove();
});

test("every event is in the file of its organization, however many there are, and files grow", async () => {
  const [events, organizations] = [3000, 400];
  const settings = { rotateSize: "1MB", path: "{organization}/{service}" };
  const args = [directory, `${folder.path}/reader.db`, events, JSON.stringify(settings), organizations, 1000];
  child = spawn(process.execPath, [DRIVER, ...args.map(String)], { stdio: ["ignore", "ignore", "inherit"] });
  const [code] = await once(child, "exit");
  expect(code).toBe(0);
  expect(namesIn(directory)).toHaveLength(organizations);
  const numbers = linesIn(directory).map((line) => (JSON.parse(line) as { number: number }).number);
  expect(numbers.toSorted((a, b) => a - b)).toEqual(Array.from({ length: events }, (_, number) => number));
  const [first] = namesIn(directory);
  const own = readFileSync(`${directory}/${first}`, "utf8").trimEnd().split("\n");
  expect(own.map((line) => (JSON.parse(line) as { number: number }).number % organizations)).toEqual(
    own.map(() => 0),
  );
  expect(existsSync(`${directory}/.tidemark/ledger`)).toBe(true);
});
