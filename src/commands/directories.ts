import type { Command } from "commander";
import type { Io } from "./io.ts";
import {
  type AccountFlags,
  accountOf,
  type OpenManagement,
  printJson,
  printTable,
  subcommand,
  using,
  withAccount,
} from "./management.ts";

/** `tidemark directories`: the directories of an organization. */
export function registerDirectories(program: Command, io: Io, open: OpenManagement): void {
  const directories = program.command("directories").description("list the directories of an organization");
  withAccount(
    subcommand(
      directories,
      "list",
      "list directories: LDAP, Google, Microsoft, Workday",
      "tidemark directories list",
    ),
  ).action((flags: AccountFlags) =>
    using(open, flags, async (context) => {
      const client = context.management(accountOf(context, flags));
      const found = await client.directories(flags.organization, io.signal);
      if (flags.json) return printJson(io, found);
      printTable(
        io,
        ["ID", "TYPE", "NAME"],
        found.map(({ id, type, name }) => [id, type, name]),
      );
    }),
  );
}
