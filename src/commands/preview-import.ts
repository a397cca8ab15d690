import { importSourceOf } from "../directory/import-source.ts";
import { type Chosen, chooseUsers, compareUsers, type Difference } from "../imports/choose.ts";
import type { OfferedUser } from "../imports/source.ts";
import type { Io } from "./io.ts";
import { type OpenManagement, printJson, printTable, using } from "./management.ts";
import { type ChoiceFlags, choiceFrom, type SourceFlags, sourceFor } from "./start-import.ts";

const CHANGES_SHOWN = 3;

/** The users on offer, with what the import would do to each. Nothing is changed. */
export function preview(
  io: Io,
  open: OpenManagement,
  name: string | undefined,
  flags: SourceFlags & ChoiceFlags & { limit: number },
): Promise<void> {
  return using(open, flags, async (context) => {
    const { account, organization, application, workday, query } = sourceFor(context, name, flags);
    const source = importSourceOf(context.management(account));
    const offer = {
      kind: workday === undefined ? "application" : "workday",
      source: workday ?? application ?? "",
      query,
    } as const;
    const offered: OfferedUser[] = [];
    for await (const user of source.offered(organization, offer, io.signal)) offered.push(user);
    const existing = await source.existing(organization, io.signal);
    const chosen: Chosen[] =
      workday === undefined
        ? offered.map((user) => ({ user, skipped: null }))
        : chooseUsers(offered, choiceFrom(context, name, flags), existing);
    const found = compareUsers(chosen, existing);
    if (flags.json) return printJson(io, found.slice(0, flags.limit));
    printTable(
      io,
      ["USERNAME", "EMAIL", "FIRST NAME", "LAST NAME", "WOULD BE"],
      found.slice(0, flags.limit).map((one) => cellsOf(one)),
    );
    io.stdout.write(`\n${wordsOf(found)}\n`);
  });
}

function cellsOf(difference: Difference): string[] {
  const { username, email, firstname, lastname } = difference.user;
  return [username, email, firstname, lastname, fateOf(difference)].map((cell) => cell ?? "");
}

function fateOf({ skipped, kind, changes }: Difference): string {
  if (skipped !== null) return `skipped: ${skipped}`;
  if (kind === "new") return "created";
  if (kind === "same") return "unchanged";
  if (kind === "unknown") return "created or updated";
  const shown = changes
    .slice(0, CHANGES_SHOWN)
    .map(({ field, from, to }) => `${field}: ${from || "-"} → ${to}`);
  const more = changes.length > CHANGES_SHOWN ? ` and ${changes.length - CHANGES_SHOWN} more` : "";
  return `updated (${shown.join(", ")}${more})`;
}

function wordsOf(found: readonly Difference[]): string {
  const count = (test: (one: Difference) => boolean) => found.filter(test).length;
  const skipped = count((one) => one.skipped !== null);
  const of = (kind: Difference["kind"]) => count((one) => one.skipped === null && one.kind === kind);
  const head = `${found.length} offered: `;
  if (of("unknown") > 0) {
    return `${head}${of("unknown")} would be created or updated, ${skipped} skipped. The service does not list its users, so there is nothing to compare with.`;
  }
  return `${head}${of("new")} would be created, ${of("changed")} updated, ${of("same")} unchanged, ${skipped} skipped.`;
}
