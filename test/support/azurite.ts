import { execFileSync } from "node:child_process";
import { createHmac } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { fetchOnce } from "./components.ts";
import { freePort } from "./ports.ts";
import { inTemporaryFolder, startProcess } from "./process.ts";

const VERSION = "3.37.0";
/** The account and key that every Azurite has. They are published and protect nothing. */
export const AZURITE_ACCOUNT = "devstoreaccount1";
export const AZURITE_KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/** The script of Azurite's blob service; undefined when it was not fetched. */
export async function findAzurite(): Promise<string | undefined> {
  const folder = await fetchOnce("azurite", `azurite-${VERSION}`, async (target) => {
    const args = ["install", "--prefix", target, "--no-fund", "--no-audit", `azurite@${VERSION}`];
    execFileSync("npm", args, { stdio: "inherit" });
  });
  return folder && join(folder, "node_modules/azurite/dist/src/blob/main.js");
}

export interface Azurite {
  /** With the account, as the config's endpoint. */
  readonly url: string;
  readonly port: number;
  /** Ends it in order: it writes its list of blobs to disk every few seconds and when it ends. */
  stop(): Promise<void>;
  restart(): Promise<void>;
  close(): Promise<void>;
}

/** Microsoft's emulator of Azure Blob Storage over a temporary folder. */
export function startAzurite(script: string): Promise<Azurite> {
  return inTemporaryFolder("tidemark-azure-", async (root) => {
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const options = ["--blobHost", "127.0.0.1", "--blobPort", String(port), "--location", root];
    const args = [script, ...options, "--silent", "--skipApiVersionCheck", "--disableTelemetry"];
    const isReady = async () => (await fetch(url)).status > 0;
    const start = () => startProcess(process.execPath, args, { isReady });
    let running = await start();
    return {
      url: `${url}/${AZURITE_ACCOUNT}`,
      port,
      stop: () => running.kill("SIGINT"),
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

/** A request to the emulator, signed by code of its own. */
export async function azuriteRequest(
  server: Azurite,
  method: string,
  path: string,
  headers: Record<string, string> = {},
): Promise<Response> {
  const url = new URL(`${server.url}${path}`);
  const all: Record<string, string> = {
    ...headers,
    "x-ms-date": new Date().toUTCString(),
    "x-ms-version": "2021-12-02",
  };
  const own = Object.keys(all)
    .filter((name) => name.startsWith("x-ms-"))
    .toSorted()
    .map((name) => `${name}:${all[name]}\n`)
    .join("");
  const query = [...url.searchParams.keys()]
    .toSorted()
    .map((name) => `\n${name}:${url.searchParams.get(name)}`);
  const text = `${method}\n\n\n\n\n\n\n\n\n\n\n\n${own}/${AZURITE_ACCOUNT}${url.pathname}${query.join("")}`;
  const signature = createHmac("sha256", Buffer.from(AZURITE_KEY, "base64")).update(text).digest("base64");
  return fetch(url, {
    method,
    headers: { ...all, authorization: `SharedKey ${AZURITE_ACCOUNT}:${signature}` },
  });
}
