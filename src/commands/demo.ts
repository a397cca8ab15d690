import { mkdtempSync, readdirSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import type { App } from "../app.ts";
import { systemClock } from "../core/clock.ts";
import { timeoutSignal } from "../core/timeout.ts";
import { createFollower } from "../delivery/follow.ts";
import { VERSION } from "../version.ts";
import type { Io } from "./io.ts";
import { createLog } from "./log.ts";

interface Flags {
  readonly directory?: string;
  readonly port: string;
  readonly events: string;
  readonly organizations: string;
  readonly live: string;
  readonly seconds?: string;
}

export function registerDemo(program: Command, io: Io): void {
  program
    .command("demo")
    .summary("see it work: a simulated service, the exporter and the page, without credentials")
    .description(
      "Starts a simulated directory service, exports its events to files exactly as `run` does, and shows them as they arrive. Needs no credentials; Ctrl-C ends it.",
    )
    .option("--directory <folder>", "where state and events go; a new temporary folder by default")
    .option("--port <number>", "the page's port; 0 takes a free one", "9464")
    .option("--events <count>", "events of history", "20000")
    .option("--organizations <count>", "organizations", "12")
    .option("--live <rate>", "new events a second", "5")
    .option("--seconds <count>", "end by itself after so long")
    .addHelpText("after", "\nExample:\n  $ tidemark demo --organizations 200 --live 50")
    .action((flags: Flags) => demo(flags, io));
}

async function demo(flags: Flags, io: Io): Promise<void> {
  const { openApp } = await import("../app.ts");
  const { parseConfig } = await import("../config/load.ts");
  const { startSimulator } = await import("../../simulator/index.ts");
  const { startTelemetry } = await import("../telemetry.ts");
  const signal =
    flags.seconds === undefined
      ? io.signal
      : AbortSignal.any([io.signal, timeoutSignal(Number(flags.seconds) * 1000)]);
  const folder = flags.directory ?? mkdtempSync(join(tmpdir(), "tidemark-demo-"));
  const simulator = await startSimulator({
    organizations: Number(flags.organizations),
    events: Number(flags.events),
    liveEventsPerSecond: Number(flags.live),
    days: 30,
  });
  try {
    const config = parseConfig(configText(simulator, folder, flags.port), "the demo's config");
    config.accounts[0]!.apiKey!.resolve(simulator.apiKey);
    const telemetry = startTelemetry({}, VERSION);
    const app = await openApp({ config, log: createLog(io, "warn"), stdout: io.stdout, telemetry });
    try {
      const say = (text: string) => io.stdout.write(`${text}\n`);
      say(
        `A simulated directory service with ${simulator.organizations.length} organizations runs at ${simulator.url}.`,
      );
      say(`Its events are written to ${join(folder, "events")}, one a line, byte for byte as served.`);
      const watching = watch(app, io, signal);
      await app.run(signal, (url) => say(`The page is at ${url ?? "no address"}`));
      await watching;
      say(
        `\nStopped. ${countFiles(join(folder, "events"))} files with events are in ${join(folder, "events")}.`,
      );
    } finally {
      await app.close();
      await telemetry.close();
    }
  } finally {
    await simulator.close();
  }
}

/** History is counted, what is new is shown. */
async function watch(app: App, io: Io, signal: AbortSignal): Promise<void> {
  const startedMs = Date.now();
  let history = 0;
  let toldMs = 0;
  const reader = await app.journal.reader("~demo");
  const { step } = createFollower({
    reader,
    clock: systemClock,
    wants: () => true,
    apply(events) {
      for (const event of events) {
        if (event.timestampMs < startedMs - 60_000) history++;
        else
          io.stdout.write(
            `${event.timestamp}  ${(event.organization ?? "-").slice(-6)}  ${event.service.padEnd(18)} ${event.eventType}\n`,
          );
      }
    },
    commit: (to) => reader.commit(to, undefined),
  });
  while (!signal.aborted) {
    if ((await step(signal)) === "again") continue;
    if (history > 0 && Date.now() - toldMs > 2000) {
      io.stdout.write(`${history} events of history are exported.\n`);
      history = 0;
      toldMs = Date.now();
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

function configText(
  simulator: { insightsUrl: string; managementUrl: string; providerId: string },
  folder: string,
  port: string,
): string {
  return JSON.stringify({
    accounts: [
      {
        name: "demo",
        insightsUrl: simulator.insightsUrl,
        managementUrl: simulator.managementUrl,
        apiKey: { env: "UNUSED" },
        organizations: "all",
        provider: simulator.providerId,
        since: "30d",
      },
    ],
    state: join(folder, "tidemark.db"),
    polling: { interval: "1s", overlap: "2m" },
    sinks: [{ name: "disk", type: "file", directory: join(folder, "events") }],
    server: { port: Number(port) },
  });
}

function countFiles(folder: string): number {
  try {
    return readdirSync(folder, { recursive: true, withFileTypes: true }).filter(
      (entry) =>
        entry.isFile() &&
        !entry.parentPath.includes(".tidemark") &&
        statSync(join(entry.parentPath, entry.name)).size > 0,
    ).length;
  } catch {
    return 0;
  }
}
