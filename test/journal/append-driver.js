// A process that appends pages and moves a reader, to be killed at any moment: node append-driver.js FILE. A thread
// copies the log into the file after every few pages.
// Event numbers rise without end. The cursor of the one window counts the pages that were appended, and the
// reader's state the events that it has passed, so that a later process can check what fits.

import { ordinaryMemory } from "../../dist/src/core/buffer-pool.js";
import { systemClock } from "../../dist/src/core/clock.js";
import { silentLog } from "../../dist/src/core/log.js";
import { preparePage } from "../../dist/src/core/prepare-page.js";
import { newWindow } from "../../dist/src/core/window.js";
import { createCheckpoints } from "../../dist/src/journal/checkpoints.js";
import { openState } from "../../dist/src/journal/database.js";
import { createJournal } from "../../dist/src/journal/journal.js";
import { takeLock } from "../../dist/src/journal/lock.js";
import { createSpace } from "../../dist/src/journal/space.js";

const PAGE_EVENTS = 7;
const ORGANIZATION = "5f0c5f0c5f0c5f0c5f0c5f0c";
const file = process.argv[2];
const lock = takeLock(file);
const db = openState(file);
const journal = createJournal(db, systemClock);
const checkpoints = createCheckpoints(db, file, silentLog, { waiting: 20, whole: 40 });
journal.onAppend(() => checkpoints.look());
const space = createSpace(db, file, 1e9);
const stream = await journal.stream({
  account: "acme",
  provider: null,
  organizations: [ORGANIZATION],
  services: ["all"],
});
if ((await journal.windows()).length === 0)
  await journal.changeWindows({ add: [newWindow(stream, 0, 1e15, { sweeps: 0 })] });

function pageAt(number) {
  const events = Array.from({ length: PAGE_EVENTS }, (_, at) => {
    const event = number * PAGE_EVENTS + at;
    return {
      id: String(event),
      number: event,
      timestamp: new Date(1.7e12 + event * 1000).toISOString(),
      text: "x".repeat((event * 7919) % 3000),
    };
  });
  const attribution = { organizations: [ORGANIZATION], provider: null };
  return preparePage(Buffer.from(JSON.stringify(events)), attribution);
}

async function append(number, window) {
  const page = pageAt(number);
  return journal.append({
    account: "acme",
    provider: null,
    organization: ORGANIZATION,
    page,
    lease: ordinaryMemory.adopt(page.scanned.bytes),
    fetchedAtMs: 1.8e12,
    edge: [],
    lateBeforeMs: Number.NEGATIVE_INFINITY,
    reader: null,
    change: () => ({ put: [{ ...window, sweeps: Math.max(window.sweeps, number + 1) }] }),
  });
}

const reader = await journal.reader("disk");
process.stdout.write("ready\n");
process.once("exit", () => lock.release());
for (;;) {
  const [window] = await journal.windows();
  // As after a lost answer: the page before is read again and must be known.
  if (window.sweeps > 0 && (await append(window.sweeps - 1, window)).fresh !== 0) process.exit(3);
  const { fresh } = await append(window.sweeps, window);
  if (fresh !== PAGE_EVENTS) process.exit(4);
  for (
    let page = await reader.read(reader.position);
    page !== null;
    page = await reader.read(reader.position)
  ) {
    const take = Math.min(page.count, 3);
    const passed = reader.state?.passed ?? 0;
    for (let at = 0; at < take; at++) {
      const { number } = JSON.parse(Buffer.from(page.event(page.first + at).bytes).toString());
      if (number !== passed + at) process.exit(5);
    }
    await reader.commit(page.after(page.first + take - 1), { passed: passed + take });
    page.lease.release();
  }
  if (window.sweeps % 10 === 0) await space.trim();
}
