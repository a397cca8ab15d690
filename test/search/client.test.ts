import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { silentLog } from "../../src/core/log.ts";
import { createServiceClient } from "../../src/search/service/client.ts";

test("a search process that hangs does not hold up the end of the exporter", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tidemark-client-"));
  const started = join(folder, "started");
  const hanging = `process.on("SIGTERM", () => {}); setInterval(() => {}, 1000); require("fs").writeFileSync(${JSON.stringify(started)}, "")`;
  try {
    const client = createServiceClient({
      ...{ command: [process.execPath, "-e", hanging], env: process.env, log: silentLog, idleMs: 600_000 },
    });
    const asked = client.answer({ kind: "sync" }, new AbortController().signal);
    asked.catch(() => {});
    await expect.poll(() => existsSync(started), { timeout: 60_000 }).toBe(true);
    await client.close();
    await expect(asked).rejects.toThrow("it ended with SIGKILL");
  } finally {
    rmSync(folder, { recursive: true });
  }
});
