// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { setTimeout } from "node:timers/promises";
import { gunzipSync } from "node:zlib";
import { afterEach, expect, test } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import type { makeRequester } from "../../../src/core/http/requester.ts";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

/* Compressed bodies share memory; only the built program has the thread that compresses them. */
test("each compressed body arrives as it was given, with several on their way and some refused early", async () => {
  // Larger than what the system takes from a sender at once, compressed too.
  const bodies = Array.from({ length: 40 }, (_, seed) =>
    Buffer.from(randomBytes(2_000_000 + 300_000 * (seed % 5)).toString("hex")),
  );
  const wrong: string[] = [];
  const server = createServer(async (request, response) => {
    const seed = Number(request.url!.slice(1));
    if (seed % 6 === 5) response.writeHead(503).end();
    // A part of the body waits at the sender while others are compressed.
    await setTimeout(20 * (seed % 7));
    const received = await buffer(request).catch(() => undefined);
    if (seed % 6 === 5) return;
    if (!gunzipSync(received!).equals(bodies[seed]!)) wrong.push(request.url!);
    response.end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  closing.push(() => new Promise((resolve) => void server.close(resolve).closeAllConnections()));
  const built = join(import.meta.dirname, "../../../dist/src/core/http/requester.js");
  const { makeRequester: make } = (await import(built)) as { makeRequester: typeof makeRequester };
  const requester = await make({ destination: "the server", clock: systemClock, timeoutMs: 60_000 });
  closing.push(() => requester.close());
  const { port } = server.address() as AddressInfo;
  const statuses: number[] = [];
  async function sendFrom(first: number): Promise<void> {
    for (let seed = first; seed < 40; seed += 4) {
      const url = `http://127.0.0.1:${port}/${seed}`;
      const signal = AbortSignal.timeout(120_000);
      const { status } = await requester.send({ url, headers: {}, body: bodies[seed]!, gzip: true }, signal);
      statuses.push(status);
    }
  }
  await Promise.all([0, 1, 2, 3].map(sendFrom));
  expect(wrong).toEqual([]);
  expect(statuses.filter((status) => status === 503)).toHaveLength(6);
  expect(statuses.filter((status) => status === 200)).toHaveLength(34);
});
