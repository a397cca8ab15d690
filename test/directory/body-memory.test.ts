import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";
import { BLOCK_BYTES, createBufferPool, type PageMemory } from "../../src/core/buffer-pool.ts";
import { BodyTooLargeError } from "../../src/directory/errors.ts";
import { openTransport } from "../../src/directory/transport.ts";
import { caught, forever, serve } from "./support.ts";

it("a body that is far larger than guessed grows by blocks that are used again", async () => {
  const bomb = gzipSync(Buffer.alloc(8 * BLOCK_BYTES, 0x20), { level: 9 });
  const server = await serve((_request, response) => {
    response.writeHead(200, { "content-encoding": "gzip" });
    response.end(bomb);
  });
  const pool = createBufferPool();
  const taken: number[] = [];
  const take: PageMemory["take"] = (bytes) => {
    taken.push(bytes);
    return pool.take(bytes);
  };
  const transport = openTransport({ headersTimeoutMs: 60_000, bodyTimeoutMs: 60_000 });
  const memory = { ...pool, take };
  const request = { method: "GET", url: new URL(server.url), headers: [], memory, signal: forever } as const;
  const response = await transport.send({ ...request, bodyBytesMax: 4 * BLOCK_BYTES });
  expect(await caught(response.body())).toBeInstanceOf(BodyTooLargeError);
  const others = taken.filter((bytes) => bytes !== BLOCK_BYTES);
  expect(others.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThan(BLOCK_BYTES / 8);
  await transport.close();
  await server.close();
});
