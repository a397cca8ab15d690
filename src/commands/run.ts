import type { Command } from "commander";
import type { App } from "../app.ts";
import { systemClock } from "../core/clock.ts";
import { explain, UsageError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import { damaged } from "../journal/database.ts";
import type { Telemetry } from "../telemetry.ts";
import { VERSION } from "../version.ts";
import type { Io } from "./io.ts";
import { createLog } from "./log.ts";
import { runOnce } from "./once.ts";
import { withConfig } from "./options.ts";

export function registerRun(program: Command, io: Io): void {
  withConfig(program.command("run"), "tidemark run --once")
    .summary("pull events and deliver them, until stopped")
    .description(
      "Pulls events and delivers them until it is stopped. SIGTERM ends it cleanly, and kill -9 loses nothing either. With --once it reads everything up to now, delivers it, reports what is missing, and exits with 1 if anything could not be read or delivered, or was lost since the last run.",
    )
    .option("--once", "read everything up to now, deliver it, and exit")
    .action(async (flags: { config: string; once?: boolean }) => {
      // Heavy modules are loaded by the command that needs them.
      const { loadConfig } = await import("../config/load.ts");
      const { config } = loadConfig(flags.config, io.env);
      const log = createLog(io, config.log.level);
      const telemetry = await telemetryFor(config.server !== undefined, io);
      // Its thread starts while the rest is loaded.
      const { createPreparer } = await import("../polling/prepare/preparer.ts");
      const { reads } = await import("../services/read/read-paths.ts");
      const { areRecipesUsed } = await import("../app/sinks.ts");
      const preparer = createPreparer(systemClock, areRecipesUsed(config) ? { reads } : {});
      const { createEncoder } = await import("../app/encode/thread.ts");
      const encoder = createEncoder(systemClock);
      if (config.cluster !== undefined) {
        const { cluster } = config;
        if (flags.once)
          throw new UsageError("run --once is for one state file: a cluster runs until stopped.");
        const { runMachine } = await import("../app/cluster/run.ts");
        log.info({ version: VERSION, cluster: cluster.name }, "Tidemark has started.");
        await runMachine(
          { config: { ...config, cluster }, log, stdout: io.stdout, telemetry, preparer, encoder },
          io.signal,
        ).finally(() => telemetry?.close());
        log.info({ reason: explain(io.signal.reason ?? "no work left") }, "Tidemark stops.");
        return;
      }
      const { openApp } = await import("../app.ts");
      const app = await openApp({
        config,
        log,
        preparer,
        encoder,
        stdout: io.stdout,
        ...(io.program === undefined
          ? {}
          : {
              searchProcess: {
                command: [...io.program, "search-process", "--config", flags.config],
                env: io.env,
              },
            }),
        poisonMemory: io.env.TIDEMARK_POISON_MEMORY === "1",
        ...(telemetry === undefined ? {} : { telemetry }),
      });
      try {
        if (flags.once) await runOnce(app, io);
        else await runUntilStopped(app, log, io);
      } finally {
        await app.close();
        await telemetry?.close();
      }
    });
}

/** The log says when the program starts, when it stops, and why. */
async function runUntilStopped(app: App, log: Log, io: Io): Promise<void> {
  log.info({ version: VERSION, state: app.config.state }, "Tidemark has started.");
  try {
    await app.run(io.signal);
    log.info({ reason: explain(io.signal.reason ?? "no work left") }, "Tidemark stops.");
  } catch (cause) {
    const error = damaged(app.config.state, cause);
    log.error({ err: error }, "Tidemark stops because of an error.");
    throw error;
  }
}

/** Metrics are set up when something reads them: the server, or the standard OTEL_ variables. */
async function telemetryFor(server: boolean, io: Io): Promise<Telemetry | undefined> {
  if (!server && !Object.keys(io.env).some((name) => name.startsWith("OTEL_"))) return undefined;
  const { startTelemetry } = await import("../telemetry.ts");
  return startTelemetry(io.env, VERSION);
}
