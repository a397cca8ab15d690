import type { Command } from "commander";
import type { CheckFinding } from "../app/check/finding.ts";
import { examine } from "../app/doctor.ts";
import { loadConfig } from "../config/load.ts";
import { systemClock } from "../core/clock.ts";
import { explain } from "../core/errors.ts";
import type { Io } from "./io.ts";
import { createLog } from "./log.ts";
import { withConfig } from "./options.ts";

interface Flags {
  readonly config: string;
  readonly json?: boolean;
  readonly offline?: boolean;
  readonly quick?: boolean;
}

export function registerDoctor(program: Command, io: Io): void {
  withConfig(program.command("doctor"), "tidemark doctor --json")
    .summary("look at everything that can be wrong: state file, disk, clock, permissions, service, sinks")
    .description(
      "Looks through the state file (structure, every page's checksum), disk space, permissions, lock and log, asks the service with every key (and compares clocks), and asks every sink whether it could deliver. Works beside a running process and changes nothing. Exit codes: 0 fine, 1 something is wrong, 2 the config is.",
    )
    .option("--offline", "do not ask the service, open no sink")
    .option("--quick", "do not read the whole state file, which takes a while for a large one")
    .option("--json", "one JSON object a line")
    .action(async (flags: Flags) => {
      const report = (finding: CheckFinding) => io.stdout.write(lineOf(finding, flags.json === true));
      const { config } = loadOrReport(flags.config, io, report);
      report({ subject: "config", ok: true, message: `${flags.config} is valid` });
      const { offline = false, quick = false } = flags;
      let failed = 0;
      const options = { config, configFile: flags.config, clock: systemClock, offline, quick };
      const { signal, stderr: stdout } = io;
      for await (const finding of examine({ ...options, log: createLog(io, "error"), signal, stdout })) {
        report(finding);
        if (!finding.ok) failed++;
      }
      if (failed > 0) io.setExitCode(1);
    });
}

function loadOrReport(file: string, io: Io, report: (finding: CheckFinding) => void) {
  try {
    return loadConfig(file, io.env);
  } catch (error) {
    report({ subject: "config", ok: false, message: explain(error) });
    throw error;
  }
}

function lineOf(finding: CheckFinding, json: boolean): string {
  if (json) return `${JSON.stringify(finding)}\n`;
  const mark = finding.ok ? (finding.warning ? "note" : "ok") : "FAILED";
  return `${mark.padEnd(6)}  ${finding.subject}: ${finding.message}\n`;
}
