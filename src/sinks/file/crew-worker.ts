import { closeSync, fdatasyncSync, fstatSync, fsyncSync, openSync, writeSync } from "node:fs";
import { parentPort } from "node:worker_threads";
import type { CrewAnswer, CrewOrder } from "./crew.ts";

/* A thread behind crew.ts. It must import little: there are several of it. */

const FILE_MODE = 0o640;

parentPort?.on("message", (order: CrewOrder) =>
  parentPort!.postMessage(answerTo(order), [order.bytes.buffer]),
);

function answerTo({ id, writes, bytes, folders }: CrewOrder): CrewAnswer {
  let path = "";
  try {
    let at = 0;
    for (const write of writes) {
      path = write.path;
      const content = bytes.subarray(at, at + write.length);
      within(openSync(path, write.isNew ? "wx" : "r+", FILE_MODE), (file) => {
        // A write behind the end would leave a hole in a file that another program has cut.
        if (fstatSync(file).size < write.position)
          throw Object.assign(new Error(`The file ${path} was cut by another program.`), {
            code: "ECHANGED",
          });
        writeAll(file, content, write.position);
        fdatasyncSync(file);
      });
      at += write.length;
    }
    for (path of folders) within(openSync(path, "r"), syncFolder);
    return { id, bytes };
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException;
    return { id, bytes, failure: { message, code, path } };
  }
}

function within(file: number, work: (file: number) => void): void {
  try {
    work(file);
  } finally {
    closeSync(file);
  }
}

function writeAll(file: number, content: Uint8Array, position: number): void {
  for (let done = 0; done < content.length; ) {
    const written = writeSync(file, content, done, content.length - done, position + done);
    if (written <= 0) throw new Error("A file took no more bytes although the system reported no error.");
    done += written;
  }
}

/** Some network file systems have no such call, and keep entries durable themselves. */
function syncFolder(folder: number): void {
  try {
    fsyncSync(folder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "EINVAL" && code !== "ENOTSUP") throw error;
  }
}
