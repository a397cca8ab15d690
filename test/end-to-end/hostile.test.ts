import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createGzip } from "node:zlib";
import { afterEach, describe, expect, test } from "vitest";
import { type Program, startProgram } from "../support/program.ts";

/** TIDEMARK_HOSTILE_MB=10000 TIDEMARK_HOSTILE_SECONDS=120 is the long run. */
const BOMB_MB = Number(process.env.TIDEMARK_HOSTILE_MB ?? 600);
const SECONDS = Number(process.env.TIDEMARK_HOSTILE_SECONDS ?? 12);
const PEAK_MB_MAX = 400;
const ORGANIZATIONS = 300;

let server: Server | undefined;
let running: Program | undefined;
let folder: string | undefined;
afterEach(async () => {
  await running?.kill();
  server?.closeAllConnections();
  await new Promise((resolve) => (server === undefined ? resolve(null) : server.close(resolve)));
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
});

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** Runs the program against a server that answers every query for events like this; gives its peak memory in MB. */
async function peakAgainst(
  answer: Answer,
  sinks: readonly Readonly<Record<string, unknown>>[] = [{ name: "out", type: "file" }],
): Promise<{ peakMb: number; asked: number }> {
  let asked = 0;
  server = createServer((request, response) => {
    request.resume();
    response.on("error", () => {});
    request.on("end", () => {
      if (request.url!.includes("/organizations")) return organizations(request, response);
      asked++;
      answer(request, response);
    });
  });
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
  folder = mkdtempSync(join(tmpdir(), "tidemark-hostile-"));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const config = {
    accounts: [
      {
        name: "acme",
        insightsUrl: url,
        managementUrl: `${url}/api`,
        apiKey: { env: "DIRECTORY_API_KEY" },
        organizations: "all",
        since: "3d",
      },
    ],
    state: join(folder, "state.db"),
    polling: { interval: "1s", headerBytes: "1KiB" },
    sinks: sinks.map((sink) => ({ directory: join(folder!, String(sink.name)), ...sink })),
    log: { level: "error" },
  };
  const file = join(folder, "tidemark.yaml");
  writeFileSync(file, JSON.stringify(config));
  running = startProgram(["run", "--config", file], { DIRECTORY_API_KEY: "x".repeat(40) });
  const untilMs = Date.now() + SECONDS * 1000;
  let peakMb = 0;
  // However busy the machine is, the program has to have met the hostile answer a few times.
  while (Date.now() < untilMs || (asked < 8 && Date.now() < untilMs + 400_000)) {
    await new Promise((resolve) => setTimeout(resolve, 250));
    peakMb = Math.max(peakMb, peakOf(running.child.pid!));
  }
  expect(running.child.exitCode, running.stderr().slice(-2000)).toBeNull();
  process.stderr.write(`peak ${peakMb} MB, asked ${asked} times\n`);
  return { peakMb, asked };
}

function peakOf(pid: number): number {
  const text = readFileSync(`/proc/${pid}/status`, "utf8");
  return Math.round(Number(/VmHWM:\s+(\d+) kB/.exec(text)?.[1] ?? 0) / 1024);
}

function organizations(request: IncomingMessage, response: ServerResponse): void {
  const skip = Number(new URL(request.url!, "http://x").searchParams.get("skip") ?? 0);
  const all = Array.from({ length: ORGANIZATIONS }, (_, index) => ({
    _id: index.toString(16).padStart(24, "0"),
    displayName: `Organization ${index}`,
  }));
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify({ results: all.slice(skip, skip + 100), totalCount: ORGANIZATIONS }));
}

const headers = { "content-type": "application/json", "x-limit": "1", "x-search_after": '[1,"a"]' };
const MEGABYTE = Buffer.alloc(1_048_576, 0x20);

/** Writes megabytes as fast as they are taken. */
function pour(
  write: (bytes: Buffer) => boolean,
  onDrain: (go: () => void) => void,
  megabytes: number,
  end: () => void,
) {
  let written = 0;
  const go = () => {
    while (written < megabytes) {
      written++;
      if (!write(MEGABYTE)) return onDrain(go);
    }
    end();
  };
  go();
}

describe.skipIf(process.platform !== "linux")("memory under hostile answers", () => {
  test(
    `a gzip bomb of ${BOMB_MB} MB stays below ${PEAK_MB_MAX} MB`,
    async () => {
      const bomb = (_: IncomingMessage, response: ServerResponse) => {
        response.writeHead(200, { ...headers, "content-encoding": "gzip" });
        const gzip = createGzip({ level: 1 });
        gzip.on("error", () => {});
        response.on("close", () => gzip.destroy());
        gzip.pipe(response);
        gzip.write("[");
        pour(
          (bytes) => gzip.write(bytes),
          (go) => gzip.once("drain", go),
          BOMB_MB,
          () => gzip.end("]"),
        );
      };
      const { peakMb } = await peakAgainst(bomb);
      expect(peakMb).toBeLessThan(PEAK_MB_MAX);
    },
    180_000 + SECONDS * 1000,
  );

  test(
    `an endless body for ${ORGANIZATIONS} organizations stays below ${PEAK_MB_MAX} MB`,
    async () => {
      const endless = (_: IncomingMessage, response: ServerResponse) => {
        response.writeHead(200, headers);
        response.write("[");
        pour(
          (bytes) => !response.destroyed && response.write(bytes),
          (go) => response.once("drain", go),
          Number.POSITIVE_INFINITY,
          () => {},
        );
      };
      const { peakMb } = await peakAgainst(endless);
      expect(peakMb).toBeLessThan(PEAK_MB_MAX);
    },
    180_000 + SECONDS * 1000,
  );

  test(
    "endless words of a refusal, huge headers and a lying count stay below it too",
    async () => {
      let turn = 0;
      const mixed = (_: IncomingMessage, response: ServerResponse) => {
        switch (turn++ % 3) {
          case 0:
            response.writeHead(503, { "content-type": "text/plain" });
            return pour(
              (bytes) => !response.destroyed && response.write(bytes),
              (go) => response.once("drain", go),
              200,
              () => response.end(),
            );
          case 1:
            response.writeHead(200, { ...headers, "x-padding": "x".repeat(200_000) });
            return response.end("[]");
          default:
            response.writeHead(200, { ...headers, "x-result-count": "999999999" });
            return response.end("[]");
        }
      };
      const { peakMb } = await peakAgainst(mixed);
      expect(peakMb).toBeLessThan(PEAK_MB_MAX);
    },
    180_000 + SECONDS * 1000,
  );

  test(
    `events of 700,000 different members stay below ${PEAK_MB_MAX} MB`,
    async () => {
      let sent = 0;
      const members = (request: IncomingMessage, response: ServerResponse) => {
        const isMore = sent < 12;
        if (isMore) sent++;
        response.writeHead(200, headers);
        response.end(isMore ? `[${eventOfMembers(request, sent)}]` : "[]");
      };
      const { peakMb } = await peakAgainst(members, [{ name: "out", type: "file", format: "ocsf" }]);
      expect(peakMb).toBeLessThan(PEAK_MB_MAX);
    },
    180_000 + SECONDS * 1000,
  );
});

function eventOfMembers(request: IncomingMessage, number: number): string {
  const organization = String(request.headers["x-org-id"]).split(",", 1)[0]!.trim();
  const members = Array.from({ length: 700_000 }, (_, index) => `"m${number}_${index.toString(36)}":0`);
  const timestamp = new Date(Date.now() - 600_000 + number).toISOString();
  return `{"id":"${number}","event_type":"sso_auth","timestamp":"${timestamp}","service":"sso","organization":"${organization}",${members.join(",")}}`;
}
