import { spawn } from "node:child_process";
import { once } from "node:events";
import { PassThrough, Writable } from "node:stream";
import { expect, test } from "vitest";
import { PausedError } from "../../src/core/errors.ts";
import { console as consoleSink } from "../../src/sinks/console.ts";
import { attempt, openSink, type Target } from "../contract/drive.ts";
import { testSink } from "../contract/sink.ts";
import { makeBatch, makeEvents } from "../support/events.ts";
import { textOf } from "./file-support.ts";

/** The sink as the program opens it, with a standard output of the test's own. */
function targetOf(stdout: NodeJS.WritableStream): Target {
  return {
    definition: { ...consoleSink, open: (context) => consoleSink.open({ ...context, stdout }) },
    config: {},
  };
}

testSink("console", {
  can: [],
  async start() {
    const stdout = new PassThrough({ highWaterMark: 1 << 20 });
    let text = "";
    return {
      ...targetOf(stdout),
      async read() {
        text += stdout.read()?.toString() ?? "";
        return text.split("\n").slice(0, -1);
      },
      normal() {},
      close() {},
    };
  },
});

test("a slow reader holds the batch back until it has taken it", async () => {
  let take: (() => void) | undefined;
  const slow = new Writable({
    write(_chunk, _encoding, callback) {
      take = callback;
    },
  });
  const sink = await openSink(targetOf(slow));
  let done = false;
  const writing = sink.write(makeBatch(sink, makeEvents(3)), new AbortController().signal).then(() => {
    done = true;
  });
  await new Promise(setImmediate);
  expect(done).toBe(false);
  take?.();
  await writing;
  await sink.close();
});

test("an abort ends the wait for a reader that takes nothing", async () => {
  const stuck = new Writable({ write() {} });
  const sink = await openSink(targetOf(stuck));
  const controller = new AbortController();
  const failed = attempt(sink, makeBatch(sink, makeEvents(3)), controller.signal);
  const reason = new Error("stopped");
  controller.abort(reason);
  expect(await failed).toBe(reason);
  await sink.close();
});

test("a reader that went away pauses the sink instead of ending the process", async () => {
  const reader = spawn("head", ["-n", "1"], { stdio: ["pipe", "pipe", "inherit"] });
  const exited = once(reader, "exit");
  const sink = await openSink(targetOf(reader.stdin));
  const [first, ...rest] = makeEvents(4);
  const line = once(reader.stdout, "data");
  expect(await attempt(sink, makeBatch(sink, [first!]))).toBeUndefined();
  expect(String((await line)[0])).toBe(`${textOf([first!])[0]}\n`);
  await exited;
  const error = await attempt(sink, makeBatch(sink, rest));
  expect(error).toBeInstanceOf(PausedError);
  expect(await attempt(sink, makeBatch(sink, rest))).toBeInstanceOf(PausedError);
  await sink.close();
});
