import { platform as hostPlatform } from "node:os";
import type { Command } from "commander";
import { UsageError } from "../core/errors.ts";
import { ForbiddenError, UnauthorizedError } from "../directory/errors.ts";
import type { SystemClient } from "../directory/management.ts";
import { loadSystemIdentity, SYSTEM_REFUSED } from "../directory/system.ts";
import type { Io } from "./io.ts";
import {
  type AccountFlags,
  accountOf,
  assignmentsOf,
  collect,
  type OpenManagement,
  printJson,
  printTable,
  subcommand,
  using,
} from "./management.ts";

interface ListFlags extends AccountFlags {
  readonly add: readonly string[];
  readonly remove: readonly string[];
}

type Work = (client: SystemClient, id: string) => Promise<void>;

/** `tidemark system`: what a Linux system may ask and change about itself, with signed requests. */
export function registerSystem(
  program: Command,
  io: Io,
  open: OpenManagement,
  platform: string = hostPlatform(),
): void {
  const system = program
    .command("system")
    .summary("show or change this Linux system in the directory, as its agent")
    .description(
      "This Linux system in the directory, by its own signed requests; needs root to read the agent's key.",
    );
  const add = (name: string, summary: string, example: string) =>
    subcommand(system, name, summary, `sudo tidemark system ${example}`).option(
      "--account <name>",
      "the account whose region the system belongs to; needed where there are several",
    );
  const run = (flags: AccountFlags, work: Work) => asSystem(open, platform, flags, work);
  const options = { signal: io.signal };

  add("show", "show this system's record", "show").action((flags: AccountFlags) =>
    run(flags, async (client, id) => printJson(io, await client.system(id, options))),
  );
  add("set", "change fields of this system's record", "set --set displayName=web-1")
    .requiredOption("--set <field=value>", "one change; may be repeated", collect, [])
    .action((flags: AccountFlags & { set: readonly string[] }) =>
      run(flags, async (client, id) => {
        const changes = assignmentsOf(flags.set);
        const changed = await client.updateSystem(id, changes, options);
        if (flags.json) printJson(io, changed);
        else io.stdout.write(`System ${id} changed: ${Object.keys(changes).join(", ")}.\n`);
      }),
    );
  add("groups", "list or change this system's groups", "groups --add 5e11bb")
    .option("--add <group>", "join this group; may be repeated", collect, [])
    .option("--remove <group>", "leave this group; may be repeated", collect, [])
    .action((flags: ListFlags) =>
      run(flags, async (client, id) => {
        for (const group of flags.add) await client.changeGroupMember(group, "add", id, options);
        for (const group of flags.remove) await client.changeGroupMember(group, "remove", id, options);
        printList(io, flags, await client.systemGroups(id, options));
      }),
    );
  add("users", "list or change the users of this system", "users --add 5f0c1e")
    .option("--add <user>", "bind this user; may be repeated", collect, [])
    .option("--remove <user>", "unbind this user; may be repeated", collect, [])
    .action((flags: ListFlags) =>
      run(flags, async (client, id) => {
        for (const user of flags.add)
          await client.associateSystem(id, "add", { type: "user", id: user }, options);
        for (const user of flags.remove)
          await client.associateSystem(id, "remove", { type: "user", id: user }, options);
        printList(io, flags, await client.systemUsers(id, options));
      }),
    );
  add("leave", "take this system out of the organization", "leave --yes")
    .option("--yes", "really leave")
    .action((flags: AccountFlags & { yes?: boolean }) =>
      run(flags, async (client, id) => {
        if (flags.yes !== true) {
          throw new UsageError(
            `This deletes system ${id} from the organization. It cannot be undone; repeat it with --yes.`,
          );
        }
        await client.deleteSystem(id, options);
        if (flags.json) printJson(io, { system: id, left: true });
        else io.stdout.write(`System ${id} has left the organization.\n`);
      }),
    );
}

function asSystem(open: OpenManagement, platform: string, flags: AccountFlags, work: Work): Promise<void> {
  return using(open, flags, async (context) => {
    const identity = await loadSystemIdentity(context.system, platform);
    const client = context.openSystem(accountOf(context, flags), identity);
    try {
      await work(client, identity.systemKey);
    } catch (error) {
      if (error instanceof UnauthorizedError || error instanceof ForbiddenError) {
        throw new Error(SYSTEM_REFUSED, { cause: error });
      }
      throw error;
    } finally {
      await client.close();
    }
  });
}

function printList(io: Io, flags: AccountFlags, items: readonly Readonly<Record<string, unknown>>[]): void {
  const cells = (item: Readonly<Record<string, unknown>>) => [
    String(item.id ?? item._id ?? ""),
    String(item.name ?? item.username ?? ""),
  ];
  if (flags.json) printJson(io, items);
  else printTable(io, ["ID", "NAME"], items.map(cells));
}
