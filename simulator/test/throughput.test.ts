import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

interface Ready {
  readonly url: string;
  readonly apiKey: string;
  readonly organizations: readonly { readonly id: string }[];
}

/** Runs the built program in a process of its own; needs `npm run build` and minutes, so it is asked for by name. */
describe.skipIf(process.env.TIDEMARK_BENCH !== "1")("a million events", () => {
  let child: ChildProcess;
  let ready: Ready;
  const agent = new Agent({ keepAlive: true });
  // A token is bound to its query: every page asks from the same time.
  const from = new Date(Date.now() - 70 * 86_400_000).toISOString();
  beforeAll(async () => {
    const flags = [
      "--json",
      "--events",
      "1000000",
      "--organizations",
      "50",
      "--days",
      "60",
      "--live",
      "0",
      "--no-late",
      "--no-gzip",
    ];
    child = spawn(process.execPath, ["dist/src/main.js", "simulate", ...flags], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [line] = (await once(child.stdout!, "data")) as [Buffer];
    ready = JSON.parse(line.toString()) as Ready;
  });
  afterAll(async () => {
    agent.destroy();
    child.kill("SIGTERM");
    await once(child, "exit");
  });

  function page(after: string | null): Promise<{ count: number; bytes: number; token: string }> {
    const query = {
      service: ["all"],
      start_time: from,
      limit: 10_000,
      ...(after === null ? {} : { search_after: JSON.parse(after) }),
    };
    const headers = {
      "x-api-key": ready.apiKey,
      "x-org-id": ready.organizations.map(({ id }) => id),
      "content-type": "application/json",
    };
    return new Promise((resolve, reject) => {
      const call = request(
        `${ready.url}/insights/directory/v1/events`,
        { method: "POST", agent, headers },
        (response) => {
          if (response.statusCode !== 200) reject(new Error(`The status is ${response.statusCode}.`));
          let bytes = 0;
          response.on("data", (piece: Buffer) => (bytes += piece.length));
          response.on("end", () =>
            resolve({
              count: Number(response.headers["x-result-count"]),
              bytes,
              token: String(response.headers["x-search_after"]),
            }),
          );
        },
      );
      call.on("error", reject);
      call.end(JSON.stringify(query));
    });
  }

  it("leave at 200 MB/s or more, from a process below 1 GB", async () => {
    const started = performance.now();
    let [events, bytes] = [0, 0];
    for (let after: string | null = null; ; ) {
      const { count, bytes: size, token } = await page(after);
      events += count;
      bytes += size;
      if (count < 10_000) break;
      after = token;
    }
    const megabytesPerSecond = bytes / 1000 / (performance.now() - started);
    const residentKb = Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))?.[1]);
    console.info(
      `${events} events, ${Math.round(megabytesPerSecond)} MB/s, ${Math.round(residentKb / 1000)} MB at most`,
    );
    expect(events).toBeGreaterThan(980_000);
    expect(megabytesPerSecond).toBeGreaterThan(200);
    expect(residentKb).toBeLessThan(1_000_000);
  });
});
