import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { QUICK_RESTART, readTopic } from "../support/kafka.ts";
import { type KafkaTarget, useKafka } from "../support/kafka-suite.ts";

const KILLS = Number(process.env.TIDEMARK_KILLS ?? 5);
const BROKER_KILLS = Number(process.env.TIDEMARK_BROKER_KILLS ?? 1);
const EVENTS_PER_KILL = 4_000;
const suite = await useKafka(QUICK_RESTART);
const driver = join(import.meta.dirname, "..", "support", "kafka-driver.js");

interface Driver {
  readonly child: ChildProcess;
  /** Resolves with the first line that begins so; rejects when the process ends without one. */
  line(beginning: string): Promise<string>;
}

let running: Driver | undefined;
let folder: string | undefined;

afterEach(async () => {
  if (running) await kill(running);
  if (folder) await rm(folder, { recursive: true, force: true });
});

function start(target: KafkaTarget, events: number): Driver {
  const settings = {
    config: target.config,
    name: "killed",
    events,
    batchEventsMax: 300,
    committed: join(folder!, "committed"),
  };
  const child = spawn(process.execPath, [driver, JSON.stringify(settings)], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let complaint = "";
  child.stderr?.on("data", (data) => {
    complaint += data;
  });
  const lines = createInterface({ input: child.stdout! });
  const line = (beginning: string) =>
    new Promise<string>((resolve, reject) => {
      lines.on("line", (text) => {
        if (text.startsWith(beginning)) resolve(text);
      });
      child.once("close", () => reject(new Error(`the driver ended: ${complaint}`)));
    });
  return { child, line };
}

async function kill({ child }: Driver): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
}

/** Every number once, and those of each organization in order. */
async function expectEachOnce(topic: string, events: number): Promise<void> {
  const records = await readTopic(suite.address, topic);
  const numbers = records.map(({ payload }) => (JSON.parse(payload!) as { number: number }).number);
  expect(numbers.length).toBe(events);
  expect(new Set(numbers).size).toBe(events);
  const last = new Map<string, number>();
  for (const [at, { key }] of records.entries()) {
    expect(numbers[at]!).toBeGreaterThan(last.get(key!) ?? -1);
    last.set(key!, numbers[at]!);
  }
}

describe.skipIf(suite.skipOwn)("kafka under kill -9", () => {
  test(`R17 ${KILLS} kills of the exporter at any moment: every event once, in order per organization`, {
    timeout: 600_000 + KILLS * 15_000,
  }, async () => {
    folder = await mkdtemp(join(tmpdir(), "tidemark-kill-"));
    const target = suite.newTarget({ createTopics: { partitions: 3, replication: 1 } });
    const events = KILLS * EVENTS_PER_KILL;
    for (let kills = 0; kills < KILLS; kills++) {
      running = start(target, events);
      // Half of them while it opens, half while it writes.
      if (kills % 2 === 1) await running.line("opened");
      await sleep(Math.random() * 600);
      await kill(running);
    }
    running = start(target, events);
    await running.line("finished");
    await expectEachOnce(target.topic, events);
  });

  test(`R17 ${BROKER_KILLS} kills of the broker during an export: every event once`, {
    timeout: 600_000 + BROKER_KILLS * 60_000,
  }, async () => {
    folder = await mkdtemp(join(tmpdir(), "tidemark-kill-"));
    const target = suite.newTarget({ createTopics: { partitions: 3, replication: 1 } });
    const events = 8000 * (1 + BROKER_KILLS);
    running = start(target, events);
    for (let kills = 0; kills < BROKER_KILLS; kills++) {
      await running.line("wrote");
      await sleep(Math.random() * 1_000);
      await suite.broker!.kill();
      await suite.broker!.start();
    }
    await running.line("finished");
    await expectEachOnce(target.topic, events);
  });
});
