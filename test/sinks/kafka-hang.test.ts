import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { drive } from "../contract/drive.ts";
import { makeEvents } from "../support/events.ts";
import { QUICK_RESTART } from "../support/kafka.ts";
import { bodies, useKafka } from "../support/kafka-suite.ts";

const suite = await useKafka(QUICK_RESTART);
/** `TIDEMARK_HANG_SECONDS=300` is the long campaign. */
const HANG_MS = Number(process.env.TIDEMARK_HANG_SECONDS ?? 30) * 1000;

describe.skipIf(suite.skipOwn)("a broker that hangs", () => {
  test(
    `R38 a broker stopped for ${HANG_MS / 1000} s stops no sink: not before opening, before or after the first write`,
    async () => {
      const events = makeEvents(60);
      const [writing, opened, unopened] = [suite.newTarget(), suite.newTarget(), suite.newTarget()];
      for (const { topic } of [writing, opened, unopened]) await suite.createTopic(topic);
      const first = await drive(writing, events.slice(0, 20), { batchEvents: 20 });
      const idle = await suite.open(opened);
      suite.broker!.hang();
      try {
        const started = [
          drive(writing, events.slice(20), { batchEvents: 20, committed: first.committed, onError: wait }),
          writeThenDrive(),
          drive(unopened, events, { batchEvents: 20, onError: wait }),
        ];
        for (const outcome of started) outcome.catch(() => {});
        await sleep(HANG_MS);
        suite.broker!.resume();
        await Promise.all(started);
      } finally {
        suite.broker!.resume();
      }
      for (const { topic } of [writing, opened, unopened])
        expect(await suite.bodiesOf(topic)).toEqual(bodies(events));

      /** The sink that was opened before takes the first batch; after its error it is opened again. */
      async function writeThenDrive() {
        const target = { ...opened };
        let isFirst = true;
        const open = target.definition.open;
        const definition = {
          ...target.definition,
          open: (context: Parameters<typeof open>[0]) => {
            if (!isFirst) return open(context);
            isFirst = false;
            return Promise.resolve(idle);
          },
        };
        return drive({ ...target, definition }, events, { batchEvents: 20, onError: wait });
      }
    },
    HANG_MS * 2 + 240_000,
  );
});

/** Delivery backs off; without that the attempts of a refused connection would be used up at once. */
const wait = () => sleep(1000);
