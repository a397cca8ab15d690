import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/*
 * Ports for components that cannot choose one themselves. The system gives ports of its own range to every outgoing
 * connection and to every server on port 0, so these come from below that range. A file per port, with the number of
 * the process that uses it, keeps tests that run side by side apart.
 */

const FIRST = 20_000;
const COUNT = 12_000;

/** A port that no other test and no outgoing connection gets while this process runs. */
export async function freePort(): Promise<number> {
  const folder = join(tmpdir(), "tidemark-ports");
  mkdirSync(folder, { recursive: true });
  const start = Math.floor(Math.random() * COUNT);
  for (let tried = 0; tried < COUNT; tried++) {
    const port = FIRST + ((start + tried) % COUNT);
    if (claim(join(folder, String(port))) && (await isFree(port))) return port;
  }
  throw new Error(`All ports from ${FIRST} to ${FIRST + COUNT} are in use.`);
}

function claim(file: string): boolean {
  for (let isAgain = false; ; isAgain = true) {
    try {
      writeFileSync(file, String(process.pid), { flag: "wx" });
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
    if (isAgain || isInUse(file)) return false;
    rmSync(file, { force: true });
  }
}

/** By a process that still runs; the file is empty for an instant while its owner writes it. */
function isInUse(file: string): boolean {
  try {
    const pid = Number(readFileSync(file, "utf8"));
    if (pid > 0) process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  const isListening = await new Promise<boolean>((resolve) => {
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => resolve(true));
  });
  if (isListening) await new Promise((resolve) => server.close(resolve));
  return isListening;
}
