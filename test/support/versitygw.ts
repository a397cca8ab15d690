import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { CreateBucketCommand, S3Client } from "@aws-sdk/client-s3";
import { fetchOnce, programOnPath } from "./components.ts";
import { freePort } from "./ports.ts";
import { inTemporaryFolder, startProcess } from "./process.ts";

const VERSION = "1.8.0";
export const S3_ACCESS_KEY = "test-access-key-id";
export const S3_SECRET_KEY = "test-secret-access-key";

/** The versitygw program; undefined when it was not built. */
export async function findVersitygw(): Promise<string | undefined> {
  if (!programOnPath("go")) return undefined;
  const folder = await fetchOnce("versitygw", `versitygw-${VERSION}`, async (target) => {
    const module = `github.com/versity/versitygw/cmd/versitygw@v${VERSION}`;
    execFileSync("go", ["install", module], { stdio: "inherit", env: { ...process.env, GOBIN: target } });
  });
  return folder && join(folder, "versitygw");
}

export interface Versitygw {
  readonly url: string;
  /** Ends it like a power cut would. */
  kill(): Promise<void>;
  /** Starts it again with the same data, at the same address. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

/** An S3 service of its own over a temporary folder, with versioning unless `versioning` is false. */
export function startVersitygw(program: string, options: { versioning?: boolean } = {}): Promise<Versitygw> {
  return inTemporaryFolder("tidemark-s3-", (root) => startIn(root, program, options.versioning !== false));
}

export function clientOf({ url }: Pick<Versitygw, "url">): S3Client {
  const credentials = { accessKeyId: S3_ACCESS_KEY, secretAccessKey: S3_SECRET_KEY };
  return new S3Client({ endpoint: url, region: "us-east-1", forcePathStyle: true, credentials });
}

/** Makes a bucket; gives a client for its service. */
export async function openBucket(gateway: Versitygw, bucket: string): Promise<S3Client> {
  const client = clientOf(gateway);
  await client.send(new CreateBucketCommand({ Bucket: bucket }));
  return client;
}

async function startIn(root: string, program: string, hasVersions: boolean): Promise<Versitygw> {
  for (const folder of ["data", "versions"]) mkdirSync(join(root, folder));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const args = [
    ...[
      "--port",
      `127.0.0.1:${port}`,
      "--access",
      S3_ACCESS_KEY,
      "--secret",
      S3_SECRET_KEY,
      "--quiet",
      "posix",
    ],
    ...(hasVersions ? ["--versioning-dir", join(root, "versions")] : []),
    join(root, "data"),
  ];
  const isReady = async () => (await fetch(url)).status > 0;
  const start = () => startProcess(program, args, { isReady });
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
}
