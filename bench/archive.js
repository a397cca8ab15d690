// Closing and verifying an archive, against the bare tools over the same bytes:
//   node bench/archive.js [EVENTS]        after `npm run build`; prints one JSON line
import { execSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openArchive } from "../dist/src/archive/archive.js";
import { newSignerText, parseSigner } from "../dist/src/archive/log/note.js";
import { openDirectory } from "../dist/src/archive/store/directory.js";
import { verifyArchive } from "../dist/src/archive/verify/verify.js";
import { createBufferPool, ordinaryMemory } from "../dist/src/core/buffer-pool.js";
import { preparePage } from "../dist/src/core/prepare-page.js";
import { newWindow } from "../dist/src/core/window.js";
import { openArchiveState } from "../dist/src/journal/archive/state.js";
import { openState } from "../dist/src/journal/database.js";
import { createJournal } from "../dist/src/journal/journal.js";

const EVENTS = Number(process.argv[2] ?? 200_000);
const DAY_MS = 86_400_000;
const PAGE = 10_000;
const DAYS = 10;
const firstMs = Date.parse("2026-03-01");
const nowMs = firstMs + (DAYS + 3) * DAY_MS;
const organization = "5f0c5f0c5f0c5f0c5f0c5f0c";
const folder = mkdtempSync(join(tmpdir(), "tidemark-bench-archive-"));
const clock = { now: () => nowMs, sleep: async () => {} };
const signal = new AbortController().signal;
const words = Array.from({ length: 400 }, (_, at) => `word${(at * 7919) % 1009}`);

function eventOf(number) {
  const pick = (at) => words[(number * 31 + at * 17 + ((number >> 3) ^ at)) % words.length];
  return JSON.stringify({
    organization,
    service: "directory",
    event_type: "user_login_attempt",
    timestamp: new Date(firstMs + Math.floor((number / EVENTS) * DAYS * DAY_MS)).toISOString(),
    id: number.toString(16).padStart(24, "0"),
    initiated_by: { id: pick(1), type: "user", email: `${pick(2)}@example.com` },
    detail: Array.from({ length: 110 }, (_, at) => pick(at)).join(" "),
  });
}

try {
  const db = openState(join(folder, "state.db"));
  const journal = createJournal(db, clock, createBufferPool({ poison: false }));
  for (let from = 0; from < EVENTS; from += PAGE) {
    const bytes = Buffer.from(
      `[${Array.from({ length: Math.min(PAGE, EVENTS - from) }, (_, at) => eventOf(from + at)).join(",")}]`,
    );
    await journal.append({
      account: "bench",
      provider: null,
      organization,
      page: preparePage(bytes, { organizations: [organization], provider: null }),
      lease: ordinaryMemory.adopt(bytes),
      fetchedAtMs: nowMs,
      edge: [],
      lateBeforeMs: Number.NEGATIVE_INFINITY,
      reader: null,
      change: () => ({}),
    });
  }
  const stream = await journal.stream({
    account: "bench",
    provider: null,
    organizations: [organization],
    services: ["all"],
  });
  await journal.changeWindows({
    add: [
      newWindow(stream, firstMs, firstMs + DAYS * DAY_MS, {
        state: "sealed",
        askedMs: nowMs - DAY_MS,
        sweeps: 3,
        apiCount: EVENTS,
        heldCount: EVENTS,
      }),
    ],
  });
  const place = join(folder, "archive");
  mkdirSync(place);
  const store = await openDirectory(place);
  const signer = parseSigner(newSignerText("example.com/bench"));
  const state = await openArchiveState(db, {
    name: "bench",
    journal: journal.id,
    retentionMs: 90 * DAY_MS,
    stagingFolder: join(folder, "staging"),
  });
  const archive = await openArchive(
    state,
    store,
    clock,
    {
      origin: "example.com/bench",
      signer,
      settleMs: 0,
      classOf: () => "default",
      policy: "{}",
      workFolder: join(folder, "work"),
    },
    signal,
  );
  const closeMs = await timed(async () => {
    while ((await archive.closeStep(signal)) === "again");
  });
  let result;
  const verifyMs = await timed(async () => {
    result = await verifyArchive(store, { key: signer.verifier, nowMs });
  });
  if (!result.isValid || result.events !== EVENTS)
    throw new Error(`The archive is not whole: ${JSON.stringify(result.findings.slice(0, 3))}`);
  const files = readdirSync(join(place, "events"), { recursive: true })
    .map((path) => join(place, "events", path))
    .filter((path) => statSync(path).isFile());
  const bareMs = await timed(() =>
    spawnSync("sh", ["-c", `zstd -dc ${files.join(" ")} | sha256sum`], { stdio: "ignore" }),
  );
  const storedBytes = files.reduce((sum, path) => sum + statSync(path).size, 0);
  process.stdout.write(
    `${JSON.stringify({
      events: EVENTS,
      rawBytes: result.rawBytes,
      storedBytes,
      closeEventsPerSecond: Math.round((EVENTS / closeMs) * 1000),
      verifyEventsPerSecond: Math.round((EVENTS / verifyMs) * 1000),
      verifyRatioToZstdAndSha256sum: Number((bareMs / verifyMs).toFixed(2)),
      peakRssBytes: process.resourceUsage().maxRSS * 1024,
      cores: Number(execSync("nproc").toString()),
    })}\n`,
  );
  db.close();
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function timed(work) {
  const start = performance.now();
  await work();
  return performance.now() - start;
}
