import { expect, test } from "vitest";
import { openS3 } from "../../src/archive/store/s3.ts";
import { systemClock } from "../../src/core/clock.ts";
import { secretOf } from "../../src/core/secret.ts";
import { type Reply, startServer } from "../stand-ins/server.ts";

const PAGE: Reply = { status: 200, headers: { "content-type": "text/html" }, body: "<html>Sign in</html>" };

test.each([
  ["a web page", PAGE],
  ["an empty 204", { status: 204 }],
])("nothing counts as archived when S3 is answered by %s", async (_, reply: Reply) => {
  const server = await startServer(() => reply);
  const key = secretOf("a-key-of-the-bucket");
  const store = await openS3(
    {
      ...{ bucket: "b", prefix: "", region: "us-east-1", endpoint: server.url, pathStyle: true },
      ...{ accessKeyId: key, secretAccessKey: key, timeout: 60_000 },
    },
    systemClock,
  );
  const bytes = Buffer.from("evidence");
  await expect(store.create("events/1", { bytes })).rejects.toThrow(/Check the address/);
  await expect(store.replace("log/checkpoint", bytes)).rejects.toThrow(/Check the address/);
  await expect(store.read("events/1")).rejects.toThrow(/Check the address/);
  await store.close();
  await server.close();
});
