import type { Command } from "commander";
import { explain, UsageError } from "../core/errors.ts";
import { timestampMsOf } from "../core/time.ts";
import type { Scheduled } from "../directory/management/import-calls.ts";
import type { Io } from "./io.ts";
import {
  type AccountFlags,
  accountOf,
  callOptions,
  type ManagementContext,
  type OpenManagement,
  printJson,
  subcommand,
  using,
  withAccount,
} from "./management.ts";

interface ActivateFlags extends AccountFlags {
  readonly at?: string;
}

/** `tidemark users`: activation of users that an import left staged. */
export function registerUsers(program: Command, io: Io, open: OpenManagement): void {
  const users = program.command("users").description("activate staged users of an account");
  withAccount(
    subcommand(
      users,
      "activate <id...>",
      "activate staged users, now or at a time",
      "tidemark users activate 5f0c1e 5f0c1f --at 2026-05-01T08:00:00Z",
    ),
  )
    .option("--at <time>", "when, as RFC 3339; the service does it then")
    .action((ids: string[], flags: ActivateFlags) =>
      using(open, flags, (context) =>
        flags.at === undefined
          ? activate(io, context, ids, flags)
          : schedule(io, context, ids, flags.at, flags),
      ),
    );
}

/** One user that cannot be activated does not keep the others from it. */
async function activate(
  io: Io,
  context: ManagementContext,
  ids: readonly string[],
  flags: ActivateFlags,
): Promise<void> {
  const client = context.management(accountOf(context, flags));
  const results: { user: string; activated: boolean; reason?: string }[] = [];
  for (const user of ids) {
    try {
      await client.activateUser(user, callOptions(flags, io));
      results.push({ user, activated: true });
    } catch (error) {
      if (io.signal.aborted) throw error;
      results.push({ user, activated: false, reason: explain(error) });
    }
  }
  if (results.some(({ activated }) => !activated)) io.setExitCode(1);
  if (flags.json) return printJson(io, results);
  for (const { user, activated, reason } of results) {
    io.stdout.write(activated ? `${user} activated.\n` : `${user} not activated: ${reason}\n`);
  }
}

async function schedule(
  io: Io,
  context: ManagementContext,
  userIds: readonly string[],
  at: string,
  flags: ActivateFlags,
): Promise<void> {
  const atMs = timestampMsOf(at);
  if (atMs === undefined)
    throw new UsageError(`--at ${at} is no time: write one such as 2026-05-01T08:00:00Z.`);
  const client = context.management(accountOf(context, flags));
  const startDate = new Date(atMs).toISOString();
  const scheduled = await client.scheduleStates(
    { userIds, state: "ACTIVATED", startDate },
    callOptions(flags, io),
  );
  const missing = missingOf(userIds, scheduled);
  if (missing.length > 0) io.setExitCode(1);
  if (flags.json) return printJson(io, scheduled);
  io.stdout.write(`${scheduled.length} activations scheduled for ${startDate}.\n`);
  if (missing.length > 0)
    io.stdout.write(
      `The service's answer does not name ${missing.length} of the users: ${missing.join(", ")}. Check that they exist, and schedule them again.\n`,
    );
}

/** The users of whom the answer has no row. A row may leave out whose it is. */
function missingOf(userIds: readonly string[], scheduled: readonly Scheduled[]): readonly string[] {
  const named = new Set(scheduled.map(({ systemUserId }) => systemUserId?.toLowerCase()));
  const missing = userIds.filter((id) => !named.has(id.toLowerCase()));
  const unnamed = scheduled.filter(({ systemUserId }) => systemUserId === undefined).length;
  return missing.length > unnamed ? missing : [];
}
