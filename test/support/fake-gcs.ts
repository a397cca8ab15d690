import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fetchOnce, programOnPath } from "./components.ts";
import { freePort } from "./ports.ts";
import { inTemporaryFolder, startProcess } from "./process.ts";

const VERSION = "v1.56.1";

/** The fake-gcs-server program; undefined when it was not built. */
export async function findFakeGcs(): Promise<string | undefined> {
  if (!programOnPath("go")) return undefined;
  const folder = await fetchOnce("fake_gcs", `fake-gcs-server-${VERSION}`, async (target) => {
    const module = `github.com/fsouza/fake-gcs-server@${VERSION}`;
    execFileSync("go", ["install", module], { stdio: "inherit", env: { ...process.env, GOBIN: target } });
  });
  return folder && join(folder, "fake-gcs-server");
}

export interface FakeGcs {
  readonly url: string;
  kill(): Promise<void>;
  restart(): Promise<void>;
  close(): Promise<void>;
}

/** An emulator of Google Cloud Storage over a temporary folder. It takes every token. */
export function startFakeGcs(program: string): Promise<FakeGcs> {
  return inTemporaryFolder("tidemark-gcs-", async (root) => {
    const folder = join(root, "data");
    mkdirSync(folder);
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const address = ["-scheme", "http", "-host", "127.0.0.1", "-port", String(port)];
    const storage = [
      "-backend",
      "filesystem",
      "-filesystem-root",
      folder,
      "-public-host",
      `127.0.0.1:${port}`,
    ];
    const isReady = async () => (await fetch(`${url}/_internal/healthcheck`)).status === 200;
    const start = () => startProcess(program, [...address, ...storage, "-log-level", "error"], { isReady });
    let running = await start();
    return {
      url,
      kill: () => running.kill("SIGKILL"),
      async restart() {
        running = await start();
      },
      async close() {
        await running.kill();
        rmSync(root, { recursive: true, force: true });
      },
    };
  });
}
