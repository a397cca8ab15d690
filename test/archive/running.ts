import { join } from "node:path";
import { metrics as noMetrics } from "@opentelemetry/api";
import type { ArchiveOperation } from "../../src/app/archive-operations.ts";
import { openRunningArchive } from "../../src/app/archives.ts";
import type { CountingAccount } from "../../src/app/count-events.ts";
import { archiveSchema } from "../../src/archive/config.ts";
import { newSignerText, parseSigner } from "../../src/archive/log/note.ts";
import { createAlarms } from "../../src/core/alarms.ts";
import { silentLog } from "../../src/core/log.ts";
import { createMetrics } from "../../src/core/metrics.ts";
import { C, never, RETENTION_MS, type World } from "./world.ts";

/** An archive as the app runs it, over the journal of a world and with its clock. */
export async function openRunning(
  world: World,
  store: object,
  s3Secrets: object = {},
  accounts: readonly CountingAccount[] = [],
) {
  const origin = "example.com/running";
  const keyText = newSignerText(origin);
  const clock = { now: () => world.nowMs, sleep: async () => {} };
  const alarms = createAlarms(clock, silentLog);
  const parsed = archiveSchema.parse({ origin, key: { env: "KEY" }, store, counts: 0 });
  const place = "s3" in parsed.store ? { s3: { ...parsed.store.s3, ...s3Secrets } } : parsed.store;
  const own = { ...parsed, store: place, name: "running", type: "archive", key: { reveal: () => keyText } };
  const running = await openRunningArchive({ state: join(world.folder, "state.db") } as never, own as never, {
    db: world.db,
    journal: world.journal.id,
    retentionMs: RETENTION_MS,
    clock,
    alarms,
    metrics: createMetrics(noMetrics.getMeter("test")),
    log: silentLog,
    accounts,
    usedShare: () => 0,
  });
  return {
    verifier: parseSigner(keyText).verifier,
    drain: () => running.drain(never),
    change: (operation: ArchiveOperation) => running.change(operation, never),
    close: () => running.close(),
    size: () => running.state.head()?.size ?? 0,
    alarms: () => alarms.list(),
    /** The service has answered: a pass began at this time by its clock. */
    answer: (atMs: number) =>
      world.seal([C], new Date(atMs).toISOString().slice(0, 10), 0, { askedMs: atMs, state: "read" }),
  };
}
