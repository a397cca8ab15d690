import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { openS3 } from "../../src/archive/store/s3.ts";
import { systemClock } from "../../src/core/clock.ts";
import { secretOf } from "../../src/core/secret.ts";
import { type Reply, startServer } from "../stand-ins/server.ts";

const PAGE: Reply = { status: 200, headers: { "content-type": "text/html" }, body: "<html>Sign in</html>" };

function openAt(endpoint: string, timeout: number) {
  const key = secretOf("a-key-of-the-bucket");
  const place = { bucket: "b", prefix: "", region: "us-east-1", endpoint, pathStyle: true };
  return openS3({ ...place, accessKeyId: key, secretAccessKey: key, timeout }, systemClock);
}

test.each([
  ["a web page", PAGE],
  ["an empty 204", { status: 204 }],
])("nothing counts as archived when S3 is answered by %s", async (_, reply: Reply) => {
  const server = await startServer(() => reply);
  const store = await openAt(server.url, 60_000);
  const bytes = Buffer.from("evidence");
  await expect(store.create("events/1", { bytes })).rejects.toThrow(/Check the address/);
  await expect(store.replace("log/checkpoint", bytes)).rejects.toThrow(/Check the address/);
  await expect(store.read("events/1")).rejects.toThrow(/Check the address/);
  await store.close();
  await server.close();
});

const HEADERS = { etag: '"x"', "content-type": "application/octet-stream" };

test.each<[string, (response: ServerResponse) => void, string]>([
  ["that never answers", () => {}, "did not answer in 1s"],
  ["whose answers stop in the middle", (response) => response.writeHead(200, HEADERS).write("ab"), "in 1s"],
])("a store %s fails after its time-out", async (_, respond, message) => {
  const server = createServer((request, response) => {
    request.resume();
    respond(response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const store = await openAt(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, 1000);
  try {
    const bytes = Buffer.from("evidence");
    const list = async () => {
      for await (const { path } of store.list("events")) expect(path).toBe("none");
    };
    await expect(store.read("events/1")).rejects.toThrow(message);
    await expect(store.read("events/1", { from: 0, length: 100 })).rejects.toThrow(message);
    await expect(store.remove("events/1")).rejects.toThrow(message);
    await expect(list()).rejects.toThrow(message);
    if (!message.startsWith("did not")) return;
    await expect(store.create("events/1", { bytes })).rejects.toThrow(message);
    await expect(store.replace("log/checkpoint", bytes)).rejects.toThrow(message);
  } finally {
    await store.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});
