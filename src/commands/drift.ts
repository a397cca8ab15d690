import type { Command } from "commander";
import { loadConfigForReading } from "../config/load.ts";
import { openStateForReading } from "../journal/database.ts";
import { createDriftStore } from "../journal/drift-counts.ts";
import type { Io } from "./io.ts";
import { withConfig } from "./options.ts";

export function registerDrift(program: Command, io: Io): void {
  withConfig(program.command("drift"), "tidemark drift --json")
    .summary("how events differ from what is documented")
    .description(
      "Shows unknown event types, unknown fields and type mismatches: how often, since when. Never a value of an event.",
    )
    .option("--json", "one JSON object a line")
    .action((flags: { config: string; json?: boolean }) => {
      const { config } = loadConfigForReading(flags.config, io.env);
      const db = openStateForReading(config.state);
      try {
        const rows = createDriftStore(db).rows();
        for (const row of rows) {
          const seen = `${new Date(row.firstSeenMs).toISOString()} to ${new Date(row.lastSeenMs).toISOString()}`;
          io.stdout.write(
            flags.json
              ? `${JSON.stringify(row)}\n`
              : `${String(row.count).padStart(9)}  ${row.service}  ${row.kind}  ${row.path}  ${row.detail}  ${seen}\n`,
          );
        }
        if (rows.length === 0 && !flags.json)
          io.stdout.write("Every event so far fits its service's schema.\n");
      } finally {
        db.close();
      }
    });
}
