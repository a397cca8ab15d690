import { importSourceOf } from "../directory/import-source.ts";
import { type Chosen, chooser, comparer, type Difference } from "../imports/choose.ts";
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
    const existing = await source.existing(organization, io.signal);
    const choose =
      workday === undefined
        ? (user: OfferedUser): Chosen => ({ user, skipped: null })
        : chooser(choiceFrom(context, name, flags), existing);
    const compare = comparer(existing);
    // The list may be long, so only the users that are shown are kept.
    const shown: Difference[] = [];
    const fates = { offered: 0, skipped: 0, new: 0, changed: 0, same: 0, unknown: 0 };
    for await (const user of source.offered(organization, offer, io.signal)) {
      const found = compare(choose(user));
      fates.offered++;
      fates[found.skipped === null ? found.kind : "skipped"]++;
      if (shown.length < flags.limit) shown.push(found);
    }
    if (flags.json) return printJson(io, shown);
    printTable(
      io,
      ["USERNAME", "EMAIL", "FIRST NAME", "LAST NAME", "WOULD BE"],
      shown.map((one) => cellsOf(one)),
    );
    io.stdout.write(`\n${wordsOf(fates)}\n`);
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

type Fates = Readonly<Record<"offered" | "skipped" | Difference["kind"], number>>;

function wordsOf({ offered, skipped, unknown, new: created, changed, same }: Fates): string {
  const head = `${offered} offered: `;
  if (unknown > 0) {
    return `${head}${unknown} would be created or updated, ${skipped} skipped. The service does not list its users, so there is nothing to compare with.`;
  }
  return `${head}${created} would be created, ${changed} updated, ${same} unchanged, ${skipped} skipped.`;
}
