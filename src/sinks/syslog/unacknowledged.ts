import { readFile } from "node:fs/promises";
import type { Socket } from "node:net";

/** The kernel's tables of connections, on Linux. */
const TABLES = ["/proc/net/tcp", "/proc/net/tcp6"];

/**
 * How many bytes of a connection the receiver's machine has not acknowledged; undefined where the kernel does not
 * show it. Addresses are not compared: among connections with the same two ports, the largest number counts.
 */
export async function unacknowledgedBytes({ localPort, remotePort }: Socket): Promise<number | undefined> {
  if (localPort === undefined || remotePort === undefined) return undefined;
  const tables = await Promise.all(TABLES.map((path) => readFile(path, "latin1").catch(() => "")));
  // `  1: 0100007F:D431 0100007F:0259 01 0000FFFF:00000000 …`: number, local, remote, state, sent:received.
  const row = new RegExp(
    `^ *\\d+: \\w+:${portText(localPort)} \\w+:${portText(remotePort)} \\w+ (\\w+):`,
    "gm",
  );
  const queues = tables.flatMap((table) => [...table.matchAll(row)].map((match) => parseInt(match[1]!, 16)));
  return queues.length === 0 ? undefined : Math.max(...queues);
}

function portText(port: number): string {
  return port.toString(16).toUpperCase().padStart(4, "0");
}
