import type { Command } from "commander";
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
      const { openApp } = await import("../app.ts");
      const { startTelemetry } = await import("../telemetry.ts");
      const { config } = loadConfig(flags.config, io.env);
      const log = createLog(io, config.log.level);
      const telemetry = startTelemetry(io.env, VERSION);
      const app = await openApp({ config, log, stdout: io.stdout, telemetry });
      try {
        if (flags.once) await app.once(io.signal);
        else await app.run(io.signal);
      } finally {
        await app.close();
        await telemetry.close();
      }
    });
}
