import { z } from "zod";
import { PausedError } from "../core/errors.ts";
import { type Batch, defineSink, type Sink } from "../core/sink.ts";

/** Events on standard output, one a line, as fast as the reader at the other end takes them. */
export const console = defineSink({
  type: "console",
  summary: "Standard output, one event a line.",
  config: z.strictObject({}),
  defaultFormat: "raw",
  guarantee: "at_least_once",
  promise: "At least once: an event counts as delivered when the operating system has taken it.",
  async open(context) {
    if (context.stdout === undefined)
      throw new Error("The console sink was opened without a standard output.");
    return createConsoleSink(context.stdout);
  },
  /** Standard output has nothing that could be checked without writing. */
  probe: async () => [],
});

const LIMITS = { recordsMax: 1000, bytesMax: 1 << 20, limitedBy: "Tidemark", ageMsMax: 0 } as const;
const LINE_END = Buffer.from("\n");

function createConsoleSink(stdout: NodeJS.WritableStream): Sink {
  // Without a listener an error of the stream would end the process; `write` gets it by its callback.
  const ignore = () => {};
  stdout.on("error", ignore);
  return {
    limits: LIMITS,
    async write(batch, signal) {
      signal.throwIfAborted();
      await writeText(stdout, linesOf(batch), signal);
      return undefined;
    },
    async close() {
      // A stream tells its callback of an error first and its listeners a moment later.
      await new Promise(setImmediate);
      stdout.off("error", ignore);
    },
  };
}

function linesOf(batch: Batch): Buffer {
  return Buffer.concat(batch.records.flatMap(({ body }) => [body, LINE_END]));
}

/** Resolves when the system has taken the text: until then a slow reader holds the next batch back. */
function writeText(stdout: NodeJS.WritableStream, text: Buffer, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    stdout.write(text, (error) => {
      signal.removeEventListener("abort", stop);
      if (error) reject(refusal(error));
      else resolve();
    });
  });
}

function refusal(error: Error): PausedError {
  return new PausedError(
    "Standard output takes no more: its reader is gone.",
    "start tidemark again with a reader at the other end of the pipe",
    { cause: error },
  );
}
