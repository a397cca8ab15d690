import { execFileSync } from "node:child_process";
import { getEventListeners } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { CutOffError, StalledError, UnavailableError } from "../../src/directory/errors.ts";
import { openTransport, type TransportRequest } from "../../src/directory/transport.ts";
import { caught, forever, serve } from "./support.ts";

const LIMITS = { headersTimeoutMs: 5_000, bodyTimeoutMs: 5_000 };
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "tidemark-tls-"));
  execFileSync(
    "openssl",
    [
      "req",
      "-x509",
      "-newkey",
      "rsa:2048",
      "-nodes",
      "-days",
      "2",
      "-subj",
      "/CN=localhost",
      "-addext",
      "subjectAltName=DNS:localhost",
      "-keyout",
      "key.pem",
      "-out",
      "cert.pem",
    ],
    { cwd: folder, stdio: "ignore" },
  );
});
afterAll(() => rmSync(folder, { recursive: true }));

function get(url: string): TransportRequest {
  return { method: "GET", url: new URL(url), headers: [], bodyBytesMax: 1_000_000, signal: forever };
}

it("refuses a certificate that it cannot verify, and takes it with its authority", async () => {
  const cert = readFileSync(join(folder, "cert.pem"), "utf8");
  const server = createServer({ key: readFileSync(join(folder, "key.pem")), cert }, (_request, response) =>
    response.end("[]"),
  );
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const strict = openTransport(LIMITS);
  const error = await caught(strict.send(get(`https://localhost:${port}/`)));
  expect(error).toBeInstanceOf(UnavailableError);
  expect((error as Error).message).toContain("certificate cannot be verified");
  const trusting = openTransport({ ...LIMITS, ca: cert });
  const response = await trusting.send(get(`https://localhost:${port}/`));
  expect((await response.body()).toString()).toBe("[]");
  await Promise.all([strict.close(), trusting.close()]);
  await new Promise((resolve) => server.close(resolve));
});

it("ends an answer that drips for longer than the whole may take", async () => {
  const server = await serve((_request, response) => {
    response.writeHead(200);
    const drip = setInterval(() => response.write(" "), 10);
    response.on("close", () => clearInterval(drip));
  });
  const transport = openTransport({ ...LIMITS, totalMs: 150 });
  const response = await transport.send(get(server.url));
  expect(await caught(response.body())).toBeInstanceOf(CutOffError);
  await transport.close();
  await server.close();
});

it("gives a body up that comes more slowly than the slowest rate, and waits for one that is faster", async () => {
  const server = await serve((_request, response, raw) => {
    response.writeHead(200);
    // 100 kB are worth six seconds more.
    if (raw.url === "/fast") response.write(" ".repeat(100_000));
    let pieces = 0;
    const drip = setInterval(() => (++pieces === 40 ? response.end(" ") : response.write(" ")), 50);
    response.on("close", () => clearInterval(drip));
  });
  const transport = openTransport({ ...LIMITS, bodyTimeoutMs: 1000 });
  const slow = await transport.send(get(`${server.url}/slow`));
  const error = await caught(slow.body());
  expect(error).toBeInstanceOf(StalledError);
  expect((error as Error).message).toContain("came too slowly");
  const fast = await transport.send(get(`${server.url}/fast`));
  expect((await fast.body()).length).toBe(100_040);
  await transport.close();
  await server.close();
});

it("gives a body up that pauses, sooner where the request asks for it", async () => {
  const server = await serve((_request, response) => {
    response.writeHead(200);
    response.write(" ".repeat(1_000_000));
  });
  const transport = openTransport({ ...LIMITS, bodyTimeoutMs: 600_000 });
  const response = await transport.send({ ...get(server.url), patienceMs: 1000 });
  const error = await caught(response.body());
  expect(error).toBeInstanceOf(StalledError);
  expect((error as Error).message).toContain("paused for too long");
  await transport.close();
  await server.close();
});

it("uses its connections again, and opens no more than it may", async () => {
  const sockets = new Set<unknown>();
  const server = await serve((_request, response, raw) => {
    sockets.add(raw.socket);
    response.end("[]");
  });
  const transport = openTransport({ ...LIMITS, connectionsMax: 2 });
  for (let round = 0; round < 20; round++) await (await transport.send(get(server.url))).body();
  await Promise.all(Array.from({ length: 20 }, async () => (await transport.send(get(server.url))).body()));
  expect(sockets.size).toBeLessThanOrEqual(2);
  await transport.close();
  await server.close();
});

it("lets many requests share one signal without a warning, and leaves no listener behind", async () => {
  const warnings: Error[] = [];
  const hear = (warning: Error) => warnings.push(warning);
  process.on("warning", hear);
  const server = await serve((_request, response) => response.end("[]"));
  const transport = openTransport({ ...LIMITS, connectionsMax: 4 });
  const { signal } = new AbortController();
  const requests = Array.from({ length: 40 }, () => transport.send({ ...get(server.url), signal }));
  for (const response of await Promise.all(requests)) await response.body();
  await new Promise((resolve) => setImmediate(resolve));
  process.off("warning", hear);
  expect(warnings).toEqual([]);
  expect(getEventListeners(signal, "abort")).toEqual([]);
  await transport.close();
  await server.close();
});

it("reports an address that does not answer", async () => {
  const server = await serve(() => {});
  await server.close();
  const transport = openTransport(LIMITS);
  expect(await caught(transport.send(get(server.url)))).toBeInstanceOf(UnavailableError);
  await transport.close();
});

it("gives an answer that does not begin up sooner where the request asks for it, and says so", async () => {
  const server = await serve(() => {});
  const transport = openTransport({ ...LIMITS, headersTimeoutMs: 600_000 });
  const error = await caught(transport.send({ ...get(server.url), patienceMs: 1000 }));
  expect(error).toBeInstanceOf(CutOffError);
  expect((error as Error).message).toContain("no answer began within 1s");
  await transport.close();
  await server.close();
});
