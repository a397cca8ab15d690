import type { Command } from "commander";
import { advice, checkAccount, checkSinks, type Finding } from "../app/check.ts";
import { sinkConfigs } from "../app/sinks.ts";
import { loadConfig } from "../config/load.ts";
import type { Io } from "./io.ts";
import { createLog } from "./log.ts";
import { withConfig } from "./options.ts";

interface Flags {
  readonly config: string;
  readonly online?: boolean;
  readonly json?: boolean;
}

export function registerCheck(program: Command, io: Io): void {
  withConfig(program.command("check"), "tidemark check --online")
    .summary("check the config, and with --online the service and every sink")
    .description(
      "Checks the config. With --online it also asks the service, telling a wrong region, key, role, organization and entitlement apart, and opens every sink.",
    )
    .option("--online", "ask the service and open every sink")
    .option("--json", "one JSON object a line")
    .action(async (flags: Flags) => {
      const { config } = loadConfig(flags.config, io.env);
      const report = (finding: Finding) => {
        if (!finding.ok) io.setExitCode(1);
        const mark = finding.ok ? (finding.warning ? "note" : "ok") : "FAILED";
        io.stdout.write(
          flags.json
            ? `${JSON.stringify(finding)}\n`
            : `${mark.padEnd(6)}  ${finding.subject}: ${finding.message}\n`,
        );
      };
      report({
        subject: flags.config,
        ok: true,
        message: `the config is valid: ${config.accounts.length} accounts, ${config.sinks.length} sinks`,
      });
      const log = createLog(io, "error");
      for (const account of config.accounts)
        for await (const finding of checkAccount(account, flags.online === true, io.signal)) report(finding);
      if (!flags.online) {
        for (const sink of sinkConfigs(config)) for (const finding of advice(sink)) report(finding);
        return;
      }
      const { signal, stderr: stdout } = io;
      for await (const finding of checkSinks(config, { log, signal, stdout })) report(finding);
    });
}
