// Makes an archive to search in: events of the simulator, spread over days and organizations.
//   node bench/search-archive.js FOLDER [EVENTS] [DAYS] [ORGANIZATIONS]        after `npm run build`
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startSimulator } from "../dist/simulator/index.js";
import { openArchive } from "../dist/src/archive/archive.js";
import { newSignerText, parseSigner } from "../dist/src/archive/log/note.js";
import { openDirectory } from "../dist/src/archive/store/directory.js";
import { createBufferPool, ordinaryMemory } from "../dist/src/core/buffer-pool.js";
import { preparePage } from "../dist/src/core/prepare-page.js";
import { newWindow } from "../dist/src/core/window.js";
import { openArchiveState } from "../dist/src/journal/archive/state.js";
import { openState } from "../dist/src/journal/database.js";
import { createJournal } from "../dist/src/journal/journal.js";

const DAY_MS = 86_400_000;
const PAGE = 10_000;
const TEMPLATES = 100_000;

/** Days are closed one after the other, as in operation; what is closed leaves the journal. */
export async function makeArchive(folder, { events = 1_000_000, days = 400, organizations = 50 } = {}) {
  const place = join(folder, "archive");
  if (existsSync(join(folder, "done.json"))) return place;
  mkdirSync(place, { recursive: true });
  const templates = await templatesOf(organizations);
  const firstMs = Date.parse("2025-01-01");
  let nowMs = firstMs;
  const clock = { now: () => nowMs, sleep: async () => {} };
  const signal = new AbortController().signal;
  const db = openState(join(folder, "state.db"));
  const journal = createJournal(db, clock, createBufferPool({ poison: false }));
  const ids = [...new Set(templates.map(({ organization }) => organization))];
  const stream = await journal.stream({
    account: "bench",
    provider: null,
    organizations: ids,
    services: ["all"],
  });
  const store = await openDirectory(place);
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
      signer: parseSigner(newSignerText("example.com/bench")),
      settleMs: 0,
      classOf: () => "default",
      policy: "{}",
      workFolder: join(folder, "work"),
    },
    signal,
  );
  const perDay = Math.ceil(events / days);
  let made = 0;
  for (let day = 0; day < days && made < events; day++) {
    const startMs = firstMs + day * DAY_MS;
    const count = Math.min(perDay, events - made);
    nowMs = startMs + 2 * DAY_MS;
    for (let from = 0; from < count; from += PAGE) {
      const texts = Array.from({ length: Math.min(PAGE, count - from) }, (_, at) => {
        const number = made + from + at;
        // A few microseconds more for each: times are not all of whole milliseconds.
        const time = new Date(startMs + Math.floor(((from + at) / count) * DAY_MS)).toISOString();
        return JSON.stringify({
          ...templates[(number * 7919) % templates.length],
          timestamp: time.replace("Z", `${String(number % 1000).padStart(3, "0")}Z`),
          id: number.toString(16).padStart(24, "0"),
        });
      });
      const bytes = Buffer.from(`[${texts.join(",")}]`);
      await journal.append({
        account: "bench",
        provider: null,
        organization: null,
        page: preparePage(bytes, { organizations: ids, provider: null }),
        lease: ordinaryMemory.adopt(bytes),
        fetchedAtMs: nowMs,
        edge: [],
        lateBeforeMs: Number.NEGATIVE_INFINITY,
        reader: null,
        change: () => ({}),
      });
    }
    made += count;
    const sealed = { state: "sealed", askedMs: nowMs - 1000, sweeps: 3, apiCount: count, heldCount: count };
    await journal.changeWindows({ add: [newWindow(stream, startMs, startMs + DAY_MS, sealed)] });
    while ((await archive.closeStep(signal)) === "again");
    // The benchmark has no other reader, so nothing else trims.
    db.exec("DELETE FROM bodies; DELETE FROM identities");
  }
  db.close();
  writeFileSync(join(folder, "done.json"), JSON.stringify({ events: made, days, organizations: ids.length }));
  return place;
}

async function templatesOf(organizations) {
  const simulator = await startSimulator({ organizations, events: TEMPLATES, days: 80, lateness: "none" });
  const templates = simulator.organizations.flatMap(({ id }) =>
    [...simulator.control.allEvents({ organization: id })].map((bytes) =>
      JSON.parse(Buffer.from(bytes).toString()),
    ),
  );
  await simulator.close();
  return templates;
}

if (import.meta.url.endsWith(process.argv[1]?.split("/").at(-1) ?? "?") && process.argv[2] !== undefined) {
  const [folder, events, days, organizations] = process.argv.slice(2);
  mkdirSync(folder, { recursive: true });
  const place = await makeArchive(folder, {
    ...(events && { events: Number(events) }),
    ...(days && { days: Number(days) }),
    ...(organizations && { organizations: Number(organizations) }),
  });
  process.stdout.write(`${place}\n`);
}
