import { createServer } from "node:http";
import { gunzipSync } from "node:zlib";

/** Takes bulk requests and answers that every item was stored. */
export async function startBulkReceiver() {
  const server = createServer((request, response) => {
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", () =>
      response.setHeader("content-type", "application/json").end(answerTo(request, Buffer.concat(chunks))),
    );
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function answerTo(request, body) {
  if (!request.url.includes("_bulk"))
    return JSON.stringify({ acknowledged: true, version: { number: "2.19.1", distribution: "opensearch" } });
  const plain = request.headers["content-encoding"] === "gzip" ? gunzipSync(body) : body;
  let lines = 0;
  for (let at = plain.indexOf(10); at >= 0; at = plain.indexOf(10, at + 1)) lines++;
  const item = { create: { status: 201 } };
  return JSON.stringify({ errors: false, items: Array.from({ length: lines / 2 }, () => item) });
}
