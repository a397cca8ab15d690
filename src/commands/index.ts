import { Command, CommanderError } from "commander";
import { explain, UsageError } from "../core/errors.ts";
import { VERSION } from "../version.ts";
import { registerApps } from "./apps.ts";
import { registerBackup } from "./backup.ts";
import { registerChanges } from "./change.ts";
import { registerCheck } from "./check.ts";
import { registerConvert } from "./convert.ts";
import { registerDemo } from "./demo.ts";
import { registerDocs } from "./docs.ts";
import { registerDoctor } from "./doctor.ts";
import { registerDrift } from "./drift.ts";
import { registerImports } from "./imports.ts";
import { registerInit } from "./init.ts";
import type { Io } from "./io.ts";
import { openManagementContext } from "./open.ts";
import { registerRestore } from "./restore.ts";
import { registerRun } from "./run.ts";
import { registerSimulate } from "./simulate.ts";
import { registerSystem } from "./system.ts";
import { registerTap } from "./tap.ts";
import { registerUsers } from "./users.ts";

/** Exit codes: 0 fine, 1 failed, 2 wrong usage or config. */
export async function main(args: readonly string[], io: Io): Promise<void> {
  const program = createProgram(io);
  try {
    await program.parseAsync(args, { from: "user" });
  } catch (error) {
    if (error instanceof CommanderError) return io.setExitCode(error.exitCode === 0 ? 0 : 2);
    if (io.signal.aborted && error === io.signal.reason) return;
    io.stderr.write(`${explain(error)}\n`);
    io.setExitCode(error instanceof UsageError ? 2 : 1);
  }
}

export function createProgram(io: Io): Command {
  const program = new Command("tidemark")
    .description(
      "Pulls every audit event out of a directory service, delivers it everywhere, and shows that nothing is missing.",
    )
    .version(VERSION)
    .showHelpAfterError("(add --help for what it takes)")
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
    });
  const open = (configFile: string) => openManagementContext(configFile, io);
  registerDemo(program, io);
  registerInit(program, io);
  registerCheck(program, io);
  registerDoctor(program, io);
  registerRun(program, io);
  registerTap(program, io);
  registerChanges(program, io);
  registerBackup(program, io);
  registerRestore(program, io);
  registerDrift(program, io);
  registerImports(program, io, open);
  registerApps(program, io, open);
  registerUsers(program, io, open);
  registerSystem(program, io, open);
  registerConvert(program, io);
  registerSimulate(program, io);
  registerDocs(program, io);
  return program;
}
