import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand } from "@aws-sdk/client-s3";
import { expect, test } from "vitest";
import { openS3Client } from "../../src/core/s3-client.ts";
import { secretOf } from "../../src/core/secret.ts";

const MB = 2 ** 20;
const ANSWER_BYTES = 256 * MB;

/** A server whose answers have so many bytes; `sent` counts those of the last one. */
async function open(status: number, answerBytes: number) {
  const counted = { sent: 0 };
  const server = createServer((request, response) => {
    request.resume();
    counted.sent = 0;
    response.writeHead(status, { etag: '"x"', "content-type": "application/xml" });
    const send = (): void => {
      while (counted.sent < answerBytes && !response.destroyed) {
        counted.sent += MB;
        if (!response.write(Buffer.alloc(MB, "x"))) return void response.once("drain", send);
      }
      response.end();
    };
    send();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const connection = { region: "us-east-1", pathStyle: true, timeout: 300_000 };
  const keys = { accessKeyId: secretOf("id"), secretAccessKey: secretOf("secret") };
  const client = await openS3Client(
    { ...connection, ...keys, endpoint: `http://127.0.0.1:${port}` },
    { connections: 2 },
  );
  const close = async () => {
    client.destroy();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return { client, counted, close };
}

test.each([200, 503])("an answer of %i that does not end is given up after 16 MB", async (status) => {
  const { client, counted, close } = await open(status, ANSWER_BYTES);
  try {
    for (const ask of [
      () => client.send(new PutObjectCommand({ Bucket: "b", Key: "k", Body: "x" })),
      () => client.send(new ListObjectsV2Command({ Bucket: "b" })),
    ]) {
      await expect(ask()).rejects.toThrow("sent more than 16777216 bytes");
      expect(counted.sent).toBeLessThan(ANSWER_BYTES);
    }
  } finally {
    await close();
  }
});

test("an object that does not end is given up after the range that was asked for, or after 512 MB", async () => {
  const { client, counted, close } = await open(200, 1024 * MB);
  try {
    const object = { Bucket: "b", Key: "k" };
    const read = async (Range?: string) => {
      const { Body } = await client.send(new GetObjectCommand({ ...object, ...(Range && { Range }) }));
      for await (const chunk of Body as AsyncIterable<Uint8Array>) expect(chunk.length).toBeGreaterThan(0);
    };
    await expect(read("bytes=100-1099")).rejects.toThrow("sent more than 1000 bytes");
    expect(counted.sent).toBeLessThan(100 * MB);
    await expect(read()).rejects.toThrow("sent more than 536870912 bytes");
    expect(counted.sent).toBeLessThan(1024 * MB);
  } finally {
    await close();
  }
});
