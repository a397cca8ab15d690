import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { ListObjectsV2Command, PutObjectCommand } from "@aws-sdk/client-s3";
import { expect, test } from "vitest";
import { openS3Client } from "../../src/core/s3-client.ts";
import { secretOf } from "../../src/core/secret.ts";

const MB = 2 ** 20;
const ANSWER_BYTES = 256 * MB;

test.each([200, 503])("an answer of %i that does not end is given up after 16 MB", async (status) => {
  let sent = 0;
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(status, { etag: '"x"', "content-type": "application/xml" });
    const send = (): void => {
      while (sent < ANSWER_BYTES && !response.destroyed) {
        sent += MB;
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
  try {
    for (const ask of [
      () => client.send(new PutObjectCommand({ Bucket: "b", Key: "k", Body: "x" })),
      () => client.send(new ListObjectsV2Command({ Bucket: "b" })),
    ]) {
      sent = 0;
      await expect(ask()).rejects.toThrow("sent more than 16777216 bytes");
      expect(sent).toBeLessThan(ANSWER_BYTES);
    }
  } finally {
    client.destroy();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});
