import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * The events' bytes, one after the other, each followed by a comma, so that neighbours leave as one range of a JSON
 * array. They lie in a file that has no name any more: a million events cost disk cache, not memory, and the file
 * disappears with the process, however it ends.
 */
export interface ByteLog {
  /** Adds a text and returns its length in bytes; it begins where `length()` stood before. */
  append(text: string | Uint8Array): number;
  length(): number;
  read(offset: number, length: number, target: Buffer, targetOffset: number): void;
  close(): void;
}

const tailBytes = 1 << 20;
const comma = 0x2c;

export function openByteLog(): ByteLog {
  const folder = mkdtempSync(join(tmpdir(), "tidemark-simulator-"));
  const descriptor = openSync(join(folder, "events"), "w+");
  rmSync(folder, { recursive: true });
  let tail = Buffer.allocUnsafe(tailBytes);
  let used = 0;
  let flushed = 0;

  function flush(): void {
    for (let done = 0; done < used; ) done += writeSync(descriptor, tail, done, used - done, flushed + done);
    flushed += used;
    used = 0;
  }

  function reserve(bytes: number): void {
    if (used + bytes <= tail.length) return;
    flush();
    if (bytes > tail.length) tail = Buffer.allocUnsafe(bytes);
  }

  return {
    append(text) {
      reserve((typeof text === "string" ? text.length * 3 : text.length) + 1);
      const length = typeof text === "string" ? tail.write(text, used, "utf8") : copy(text, tail, used);
      tail[used + length] = comma;
      used += length + 1;
      return length;
    },
    length: () => flushed + used,
    read(offset, length, target, targetOffset) {
      const fromFile = Math.max(0, Math.min(length, flushed - offset));
      for (let done = 0; done < fromFile; ) {
        const read = readSync(descriptor, target, targetOffset + done, fromFile - done, offset + done);
        if (read === 0) throw new Error("The simulator's event file is shorter than what was written to it.");
        done += read;
      }
      if (fromFile === length) return;
      const start = offset + fromFile - flushed;
      tail.copy(target, targetOffset + fromFile, start, start + length - fromFile);
    },
    close: () => closeSync(descriptor),
  };
}

function copy(bytes: Uint8Array, target: Buffer, offset: number): number {
  target.set(bytes, offset);
  return bytes.length;
}
