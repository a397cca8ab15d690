// One phase of the archive's benchmark in a process of its own: prepare, close or verify.
//   node bench/archive-driver.js PHASE FOLDER EVENTS ORGANIZATIONS
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
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

const [phase, folder, eventsText, organizationsText] = process.argv.slice(2);
const EVENTS = Number(eventsText);
const DAY_MS = 86_400_000;
const PAGE = 10_000;
const DAYS = 10;
const firstMs = Date.parse("2026-03-01");
const nowMs = firstMs + (DAYS + 3) * DAY_MS;
const organizations = Array.from(
  { length: Number(organizationsText) },
  (_, at) => `5f0c${at.toString(16).padStart(20, "0")}`,
);
const clock = { now: () => nowMs, sleep: async () => {} };
const signal = new AbortController().signal;
const words = Array.from({ length: 4000 }, (_, at) => `word${(at * 7919) % 1009}`).join(" ");

/** About 1.1 KB, compressible about eight times, as real events are. */
function eventOf(number) {
  const organization = organizations[number % organizations.length];
  const start = (number * 7919) % 20_000;
  return `{"organization":"${organization}","service":"directory","event_type":"user_login_attempt","timestamp":"${new Date(
    firstMs + Math.floor((number / EVENTS) * DAYS * DAY_MS),
  ).toISOString()}","id":"${number.toString(16).padStart(24, "0")}","initiated_by":{"id":"${number % 997}","type":"user","email":"user${number % 997}@example.com"},"detail":"${words.slice(start, start + 880)}"}`;
}

async function prepare() {
  const db = openState(join(folder, "state.db"));
  const journal = createJournal(db, clock, createBufferPool({ poison: false }));
  for (let from = 0; from < EVENTS; from += PAGE) {
    const texts = Array.from({ length: Math.min(PAGE, EVENTS - from) }, (_, at) => eventOf(from + at));
    const bytes = Buffer.from(`[${texts.join(",")}]`);
    await journal.append({
      account: "bench",
      provider: null,
      organization: null,
      page: preparePage(bytes, { organizations, provider: null }),
      lease: ordinaryMemory.adopt(bytes),
      fetchedAtMs: nowMs,
      edge: [],
      lateBeforeMs: Number.NEGATIVE_INFINITY,
      reader: null,
      change: () => ({}),
    });
  }
  const stream = await journal.stream({ account: "bench", provider: null, organizations, services: ["all"] });
  const sealed = {
    state: "sealed",
    askedMs: nowMs - DAY_MS,
    sweeps: 3,
    apiCount: EVENTS,
    heldCount: EVENTS,
  };
  await journal.changeWindows({ add: [newWindow(stream, firstMs, firstMs + DAYS * DAY_MS, sealed)] });
  writeFileSync(join(folder, "journal"), journal.id);
  writeFileSync(join(folder, "key"), newSignerText("example.com/bench"));
  mkdirSync(join(folder, "archive"));
  db.close();
}

async function close() {
  const db = openState(join(folder, "state.db"));
  const state = await openArchiveState(db, {
    name: "bench",
    journal: readFileSync(join(folder, "journal"), "utf8"),
    retentionMs: 90 * DAY_MS,
    stagingFolder: join(folder, "staging"),
  });
  const archive = await openArchive(
    state,
    await openDirectory(join(folder, "archive")),
    clock,
    {
      origin: "example.com/bench",
      signer: parseSigner(readFileSync(join(folder, "key"), "utf8")),
      settleMs: 0,
      classOf: () => "default",
      policy: "{}",
      workFolder: join(folder, "work"),
    },
    signal,
  );
  while ((await archive.closeStep(signal)) === "again");
  db.close();
}

async function verify() {
  const store = await openDirectory(join(folder, "archive"));
  const key = parseSigner(readFileSync(join(folder, "key"), "utf8")).verifier;
  const result = await verifyArchive(store, { key, nowMs });
  if (!result.isValid || result.events !== EVENTS)
    throw new Error(
      `The archive is not whole: ${result.events} events, ${JSON.stringify(result.findings.slice(0, 3))}`,
    );
}

await { prepare, close, verify }[phase]();
