import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { startBulkReceiver } from "./receiver.js";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const BUCKET = "bench";

/**
 * The destinations that jobs write to. Each job is undefined where its component cannot be had; fetch the
 * components with `TIDEMARK_REQUIRE=kafka,versitygw npm test`.
 */
export async function startDestinations() {
  const support = buildSupport();
  const opened = [];
  try {
    const bulk = await startBulkReceiver();
    opened.push(() => bulk.stop());
    const kafka = await startKafka(support, opened);
    const s3 = await startS3(support, opened);
    return { bulk: bulk.url, kafka, s3, stop: () => closeAll(opened, support) };
  } catch (error) {
    await closeAll(opened, support);
    throw error;
  }
}

/** A broker alone; its address is undefined where it cannot be had. */
export async function startBrokerAlone() {
  const support = buildSupport();
  const opened = [];
  const kafka = await startKafka(support, opened);
  return { kafka, stop: () => closeAll(opened, support) };
}

async function closeAll(opened, support) {
  for (const close of opened.reverse()) await close();
  rmSync(support, { recursive: true, force: true });
}

async function startKafka(support, opened) {
  const { findKafka, startBroker } = await import(pathToFileURL(join(support, "kafka.js")).href);
  const jars = await findKafka();
  if (jars === undefined) return undefined;
  const broker = await startBroker(jars);
  opened.push(() => broker.remove());
  return broker.address;
}

async function startS3(support, opened) {
  const { findVersitygw, S3_ACCESS_KEY, S3_SECRET_KEY, startVersitygw } = await import(
    pathToFileURL(join(support, "versitygw.js")).href
  );
  const program = await findVersitygw();
  if (program === undefined) return undefined;
  const gateway = await startVersitygw(program);
  opened.push(() => gateway.close());
  const { CreateBucketCommand, S3Client } = await import("@aws-sdk/client-s3");
  const client = new S3Client({
    endpoint: gateway.url,
    region: "us-east-1",
    forcePathStyle: true,
    credentials: { accessKeyId: S3_ACCESS_KEY, secretAccessKey: S3_SECRET_KEY },
  });
  await client.send(new CreateBucketCommand({ Bucket: BUCKET }));
  client.destroy();
  return { url: gateway.url, bucket: BUCKET, accessKey: S3_ACCESS_KEY, secretKey: S3_SECRET_KEY };
}

/** The tests' support starts the components. It is TypeScript, which Node 20 does not run. */
function buildSupport() {
  // Inside the project, so that its packages are found.
  const folder = mkdtempSync(join(ROOT, "dist", "bench-"));
  const options =
    "--ignoreConfig --noCheck --module nodenext --target es2023 --types node --skipLibCheck".split(" ");
  const paths = ["--rewriteRelativeImportExtensions", "--rootDir", "test/support", "--outDir", folder];
  const files = ["test/support/kafka.ts", "test/support/versitygw.ts"];
  execFileSync("npx", ["tsc", ...options, ...paths, ...files], { cwd: ROOT, stdio: "inherit" });
  symlinkSync(join(ROOT, "test", "support", "maven"), join(folder, "maven"));
  return folder;
}
