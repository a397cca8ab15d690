import type { Command } from "commander";
import { systemClock } from "../core/clock.ts";
import type { Telemetry } from "../telemetry.ts";
import { VERSION } from "../version.ts";
import type { Io } from "./io.ts";
import { createLog } from "./log.ts";
import { withConfig } from "./options.ts";

export function registerRun(program: Command, io: Io): void {
  withConfig(program.command("run"), "tidemark run --once")
    .summary("pull events and deliver them, until stopped")
    .description(
      "Pulls events and delivers them until it is stopped. SIGTERM ends it cleanly; nothing is lost by kill -9 either.",
    )
    .option("--once", "read everything up to now, deliver it, and exit")
    .action(async (flags: { config: string; once?: boolean }) => {
      // What is heavy is loaded by the command that needs it.
      const { loadConfig } = await import("../config/load.ts");
      const { config } = loadConfig(flags.config, io.env);
      const log = createLog(io, config.log.level);
      const telemetry = await telemetryFor(config.server !== undefined, io);
      // Its thread gets ready while the rest is loaded.
      const { createPreparer } = await import("../polling/prepare/preparer.ts");
      const preparer = createPreparer(systemClock);
      const { openApp } = await import("../app.ts");
      const app = await openApp({
        config,
        log,
        preparer,
        stdout: io.stdout,
        poisonMemory: io.env.TIDEMARK_POISON_MEMORY === "1",
        ...(telemetry === undefined ? {} : { telemetry }),
      });
      try {
        if (flags.once) await app.once(io.signal);
        else await app.run(io.signal);
      } finally {
        await app.close();
        await telemetry?.close();
      }
    });
}

/** Measuring is set up where somebody can see it: on the server, or by the standard OTEL_ variables. */
async function telemetryFor(server: boolean, io: Io): Promise<Telemetry | undefined> {
  if (!server && !Object.keys(io.env).some((name) => name.startsWith("OTEL_"))) return undefined;
  const { startTelemetry } = await import("../telemetry.ts");
  return startTelemetry(io.env, VERSION);
}
