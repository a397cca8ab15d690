import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import type { JournalEvent } from "../../src/core/event.ts";
import { makeEvents, TEST_JOURNAL } from "../support/events.ts";

/** How often the writer is killed; the server three times for every twenty. */
export const KILLS = Number(process.env.TIDEMARK_KILLS ?? 4);
const SERVER_KILLS = Math.max(1, Math.round((KILLS * 3) / 20));
const EVENTS_PER_KILL = 500;

export interface Campaign {
  /** The sink's file in `dist/src/sinks`, without its ending, and the name it exports. */
  readonly file: string;
  readonly name: string;
  readonly config: Record<string, unknown>;
  readonly secrets?: Readonly<Record<string, string>>;
  readonly server: { kill(): Promise<void>; restart(): Promise<void> };
}

export interface CampaignResult {
  readonly events: readonly JournalEvent[];
  readonly writerKills: number;
  readonly serverKills: number;
  /** The number of kills inside a batch that the writer then began again. */
  readonly interrupted: number;
}

/** Delivers events by a writer that is killed again and again, and by a server that is, until all are delivered. */
export async function runCampaign(campaign: Campaign): Promise<CampaignResult> {
  const folder = mkdtempSync(join(tmpdir(), "tidemark-kills-"));
  try {
    return await runIn(folder, campaign);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function runIn(folder: string, campaign: Campaign): Promise<CampaignResult> {
  const events = makeEvents((KILLS + SERVER_KILLS + 1) * EVENTS_PER_KILL);
  const [settings, eventsFile, state] = ["settings.json", "events.jsonl", "state.json"].map((name) =>
    join(folder, name),
  ) as [string, string, string];
  const lines = events.map((event) =>
    JSON.stringify({ ...event, text: Buffer.from(event.bytes).toString() }),
  );
  writeFileSync(eventsFile, `${lines.join("\n")}\n`);
  writeFileSync(
    settings,
    JSON.stringify({
      module: pathToFileURL(resolve("dist/src/sinks", `${campaign.file}.js`)).href,
      name: campaign.name,
      config: campaign.config,
      secrets: campaign.secrets ?? {},
      journal: TEST_JOURNAL,
      events: eventsFile,
      state,
    }),
  );

  let interrupted = 0;
  for (let kill = 0; kill < KILLS; kill++) {
    const writer = startWriter(settings);
    await writer.batches(1 + Math.floor(Math.random() * 4));
    if (isDueNow(kill)) {
      await campaign.server.kill();
      await sleep(Math.random() * 200);
      await campaign.server.restart();
      await writer.batches(1);
    }
    // Anywhere inside the batch: before, during or after the destination's answer.
    await sleep(Math.random() * 30);
    await writer.kill();
    const done = doneOf(state);
    if (writer.lastStart() === done && done < events.length) interrupted++;
  }
  await startWriter(settings).finish();
  return { events, writerKills: KILLS, serverKills: SERVER_KILLS, interrupted };
}

/** Spreads the server's kills over the writer's. */
function isDueNow(kill: number): boolean {
  const due = (count: number) => Math.floor((count * SERVER_KILLS) / KILLS);
  return due(kill + 1) > due(kill);
}

/** Nothing, when the writer was killed before it had committed anything. */
function doneOf(state: string): number {
  if (!existsSync(state)) return 0;
  return (JSON.parse(readFileSync(state, "utf8")) as { done: number }).done;
}

function startWriter(settings: string) {
  const child: ChildProcess = spawn(process.execPath, [resolve("test/sinks/kill-writer.js"), settings], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = once(child, "exit");
  let errors = "";
  let seen = 0;
  let lastStart = -1;
  let onBatch: (() => void) | undefined;
  child.stderr!.on("data", (chunk: Buffer) => {
    errors = (errors + chunk).slice(-4000);
  });
  createInterface({ input: child.stdout! }).on("line", (line) => {
    seen++;
    lastStart = Number(line.split(" ")[1]);
    onBatch?.();
  });

  return {
    lastStart: () => lastStart,
    /** Waits until so many more batches have begun. */
    async batches(count: number): Promise<void> {
      const target = seen + count;
      const begun = new Promise<void>((done) => {
        onBatch = () => seen >= target && done();
        onBatch();
      });
      await Promise.race([
        begun,
        ended.then(() => Promise.reject(new Error(`the writer ended early: ${errors}`))),
      ]);
    },
    async kill(): Promise<void> {
      child.kill("SIGKILL");
      await ended;
    },
    async finish(): Promise<void> {
      const [code] = (await ended) as [number | null];
      if (code !== 0) throw new Error(`the writer ended with ${code}: ${errors}`);
    },
  };
}
