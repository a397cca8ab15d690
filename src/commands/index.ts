import { Command, CommanderError } from "commander";
import { explainWithChoices, UsageError } from "../core/errors.ts";
import { VERSION } from "../version.ts";
import type { Io } from "./io.ts";

type Register = (program: Command, io: Io) => Promise<void>;

/** In the order of the help. Each loads its modules when it is used, so that `run` loads no simulator. */
const COMMANDS: readonly { readonly names: readonly string[]; readonly register: Register }[] = [
  { names: ["demo"], register: async (program, io) => (await import("./demo.ts")).registerDemo(program, io) },
  { names: ["init"], register: async (program, io) => (await import("./init.ts")).registerInit(program, io) },
  {
    names: ["check"],
    register: async (program, io) => (await import("./check.ts")).registerCheck(program, io),
  },
  {
    names: ["doctor"],
    register: async (program, io) => (await import("./doctor.ts")).registerDoctor(program, io),
  },
  { names: ["run"], register: async (program, io) => (await import("./run.ts")).registerRun(program, io) },
  {
    names: ["status"],
    async register(program, io) {
      const { openView } = await import("./open.ts");
      (await import("./status.ts")).registerStatus(program, io, (configFile) => openView(configFile, io));
    },
  },
  { names: ["tap"], register: async (program, io) => (await import("./tap.ts")).registerTap(program, io) },
  {
    names: ["backfill", "reconcile"],
    register: async (program, io) => (await import("./backfill.ts")).registerBackfill(program, io),
  },
  {
    names: ["dead-letters"],
    register: async (program, io) => (await import("./dead-letters.ts")).registerDeadLetters(program, io),
  },
  {
    names: ["sinks"],
    register: async (program, io) => (await import("./sinks.ts")).registerSinks(program, io),
  },
  {
    names: ["backup"],
    register: async (program, io) => (await import("./backup.ts")).registerBackup(program, io),
  },
  {
    names: ["restore"],
    register: async (program, io) => (await import("./restore.ts")).registerRestore(program, io),
  },
  {
    names: ["coverage"],
    async register(program, io) {
      const { openView } = await import("./open.ts");
      (await import("./coverage.ts")).registerCoverage(program, io, (configFile) => openView(configFile, io));
    },
  },
  {
    names: ["drift"],
    register: async (program, io) => (await import("./drift.ts")).registerDrift(program, io),
  },
  {
    names: ["imports", "apps", "directories", "users", "system"],
    async register(program, io) {
      const { openManagementContext } = await import("./open.ts");
      const open = (configFile: string) => openManagementContext(configFile, io);
      (await import("./imports.ts")).registerImports(program, io, open);
      (await import("./apps.ts")).registerApps(program, io, open);
      (await import("./directories.ts")).registerDirectories(program, io, open);
      (await import("./users.ts")).registerUsers(program, io, open);
      (await import("./system.ts")).registerSystem(program, io, open);
    },
  },
  {
    names: ["archive"],
    register: async (program, io) => (await import("./archive.ts")).registerArchive(program, io),
  },
  {
    names: ["search"],
    register: async (program, io) => (await import("./search.ts")).registerSearch(program, io),
  },
  {
    names: ["sql"],
    register: async (program, io) => (await import("./sql.ts")).registerSql(program, io),
  },
  {
    names: ["cluster"],
    register: async (program, io) => (await import("./cluster.ts")).registerCluster(program, io),
  },
  {
    names: ["tokens"],
    register: async (program, io) => (await import("./tokens.ts")).registerTokens(program, io),
  },
  {
    names: ["search-process"],
    register: async (program, io) => (await import("./search-process.ts")).registerSearchProcess(program, io),
  },
  {
    names: ["witness"],
    register: async (program, io) => (await import("./witness.ts")).registerWitness(program, io),
  },
  {
    names: ["convert"],
    register: async (program, io) => (await import("./convert.ts")).registerConvert(program, io),
  },
  {
    names: ["simulate"],
    register: async (program, io) => (await import("./simulate.ts")).registerSimulate(program, io),
  },
  {
    names: ["completion"],
    async register(program, io) {
      (await import("./completion.ts")).registerCompletion(program, io, () => createProgram(io));
    },
  },
  { names: ["docs"], register: async (program, io) => (await import("./docs.ts")).registerDocs(program, io) },
];

/** Exit codes: 0 fine, 1 failed, 2 wrong usage or config. */
const TOO_FEW_FILES =
  "Too many open files: the limit of file descriptors is too low for Tidemark. Raise it with `ulimit -n 1024` (LimitNOFILE= in systemd) and start again.";

export async function main(args: readonly string[], io: Io): Promise<void> {
  try {
    const program = await createProgram(io, args[0]);
    await program.parseAsync(args, { from: "user" });
  } catch (error) {
    if (error instanceof CommanderError) return io.setExitCode(error.exitCode === 0 ? 0 : 2);
    if (io.signal.aborted && error === io.signal.reason) return;
    const { code } = error as NodeJS.ErrnoException;
    // Modules are loaded when a command needs them, so a low limit shows here.
    if (code === "EMFILE" || code === "ENFILE") io.stderr.write(`${TOO_FEW_FILES}\n`);
    io.stderr.write(`${explainWithChoices(error)}\n`);
    io.setExitCode(error instanceof UsageError ? 2 : 1);
  }
}

/** With the command of this name; with all commands when there is none, for the help and for typing errors. */
export async function createProgram(io: Io, name?: string): Promise<Command> {
  const program = new Command("tidemark")
    .description(
      "Pulls every audit event out of a directory service, delivers it everywhere, and shows that nothing is missing.",
    )
    .version(VERSION)
    .showHelpAfterError("(--help shows the options)")
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
    });
  if (name === "--version" || name === "-V") return program;
  const wanted = COMMANDS.filter(({ names }) => name !== undefined && names.includes(name));
  for (const { register } of wanted.length > 0 ? wanted : COMMANDS) await register(program, io);
  program.hook("preAction", async (_, action) => {
    let top = action;
    while (top.parent !== null && top.parent !== program) top = top.parent;
    const { refuseInCluster } = await import("./cluster.ts");
    const { config } = action.opts() as { config?: string };
    for (const name of new Set([top.name(), action.name()])) await refuseInCluster(name, config, io);
  });
  return program;
}
