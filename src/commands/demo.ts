import { mkdirSync, mkdtempSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Command } from "commander";
import { stringify } from "yaml";
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
    .option(
      "--directory <folder>",
      "the folder for config, state and events; it is created if needed; a temporary one by default",
    )
    .option("--port <number>", "the page's port; 0 takes a free one", "9464")
    .option("--events <count>", "events of history", "20000")
    .option("--organizations <count>", "organizations", "12")
    .option("--live <rate>", "new events a second", "5")
    .option("--seconds <count>", "stop after this many seconds")
    .addHelpText("after", "\nExample:\n  $ tidemark demo --organizations 200 --live 50")
    .action((flags: Flags) => demo(flags, io));
}

async function demo(flags: Flags, io: Io): Promise<void> {
  const { openApp } = await import("../app.ts");
  const { loadConfig } = await import("../config/load.ts");
  const { startSimulator } = await import("../../simulator/index.ts");
  const { startTelemetry } = await import("../telemetry.ts");
  const signal =
    flags.seconds === undefined
      ? io.signal
      : AbortSignal.any([io.signal, timeoutSignal(Number(flags.seconds) * 1000)]);
  const folder = folderOf(flags.directory);
  const simulator = await startSimulator({
    organizations: Number(flags.organizations),
    events: Number(flags.events),
    liveEventsPerSecond: Number(flags.live),
    days: 30,
  });
  try {
    const configFile = writeConfig(simulator, folder, flags.port);
    const { config } = loadConfig(configFile, io.env);
    const telemetry = startTelemetry({}, VERSION);
    const app = await openApp({ config, log: createLog(io, "warn"), stdout: io.stdout, telemetry });
    try {
      const say = (text: string) => io.stdout.write(`${text}\n`);
      say(
        `A simulated directory service with ${simulator.organizations.length} organizations runs at ${simulator.url}.`,
      );
      say(`Its events are written to ${join(folder, "events")}, one a line, byte for byte.`);
      const names = new Map(simulator.organizations.map(({ id, name }) => [id, name]));
      const watching = watch(app, names, io, signal);
      await app.run(signal, (url) => {
        say(`The status page is at ${url ?? "no address"}`);
        for (const line of hintsFor(configFile)) say(line);
      });
      await watching;
      say(
        `\nStopped. ${countFiles(join(folder, "events"))} files with events are in ${join(folder, "events")}.`,
      );
      say(`The state stays in ${folder}: \`tidemark status --config ${configFile}\` still reads it.`);
    } finally {
      await app.close();
      await telemetry.close();
    }
  } finally {
    await simulator.close();
  }
}

function folderOf(directory: string | undefined): string {
  if (directory === undefined) return mkdtempSync(join(tmpdir(), "tidemark-demo-"));
  mkdirSync(directory, { recursive: true });
  return resolve(directory);
}

function hintsFor(configFile: string): string[] {
  return [
    "Try these in another terminal, now or afterwards:",
    ...["status", "coverage", "tap --from beginning -n 3", "dead-letters list"].map(
      (command) => `  tidemark ${command} --config ${configFile}`,
    ),
  ];
}

/** Counts history in one line and shows new events as they arrive. */
async function watch(
  app: App,
  names: ReadonlyMap<string, string>,
  io: Io,
  signal: AbortSignal,
): Promise<void> {
  const startedMs = Date.now();
  let history = 0;
  let isOpenLine = false;
  const reader = await app.journal.reader("~demo");
  const { step } = createFollower({
    reader,
    clock: systemClock,
    apply(page, from, to) {
      for (let index = from; index < to; index++) {
        const event = page.event(index);
        if (event.timestampMs < startedMs - 60_000) history++;
        else
          show(event.timestamp, names.get(event.organization ?? "") ?? "-", event.service, event.eventType);
      }
      if (history > 0) progress();
    },
    draining: () => false,
    commit: (to) => reader.commit(to, undefined),
  });

  /** On a terminal the line is written over itself; elsewhere only its last state matters. */
  function progress(): void {
    if (!io.interactive) return;
    io.stdout.write(`\r\x1b[K${history} events of history exported.`);
    isOpenLine = true;
  }

  function show(...cells: [string, string, string, string]): void {
    const [time, organization, service, type] = cells;
    io.stdout.write(
      `${isOpenLine ? "\n" : ""}${time}  ${organization.slice(0, 20).padEnd(20)}  ${service.padEnd(18)} ${type}\n`,
    );
    isOpenLine = false;
  }

  while (!signal.aborted) {
    if ((await step(signal)) === "again") continue;
    await new Promise((wait) => setTimeout(wait, 200));
  }
  io.stdout.write(`${isOpenLine ? "\n" : ""}${history} events of history were exported.\n`);
}

/** A config that every other command can use, while the demo runs and afterwards. */
function writeConfig(
  simulator: { insightsUrl: string; managementUrl: string; providerId: string; apiKey: string },
  folder: string,
  port: string,
): string {
  const keyFile = join(folder, "api-key");
  writeFileSync(keyFile, simulator.apiKey, { mode: 0o600 });
  const config = {
    accounts: [
      {
        name: "demo",
        insightsUrl: simulator.insightsUrl,
        managementUrl: simulator.managementUrl,
        apiKey: { file: keyFile },
        organizations: "all",
        provider: simulator.providerId,
        since: "30d",
      },
    ],
    state: join(folder, "tidemark.db"),
    polling: { interval: "1s", overlap: "2m" },
    sinks: [{ name: "disk", type: "file", directory: join(folder, "events") }],
    server: { port: Number(port) },
  };
  const configFile = join(folder, "tidemark.yaml");
  writeFileSync(configFile, stringify(config), { mode: 0o600 });
  return configFile;
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
