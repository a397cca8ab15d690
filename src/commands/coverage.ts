import type { Command } from "commander";
import { UsageError } from "../core/errors.ts";
import { DAY_MS } from "../core/time.ts";
import type { OrganizationsView, OrganizationView } from "../core/view/organizations.ts";
import type { View } from "../core/view.ts";
import { createGapsOf, type GapsOf } from "./coverage-gaps.ts";
import { type CoverageRow, rowsOf } from "./coverage-rows.ts";
import { daysTable, gapLines, organizationLines, summaryLines } from "./coverage-text.ts";
import { sayIncomplete } from "./incomplete.ts";
import type { Io } from "./io.ts";
import { countOption, listOption, timeOption, withConfig } from "./options.ts";

interface Flags {
  readonly config: string;
  readonly json?: boolean;
  readonly problems?: boolean;
  readonly organization?: string[];
  readonly since?: number;
  readonly limit: number;
}

const PAGE = 1000;
const WINDOWS_MAX = 5000;
/** Up to this many organizations are shown day by day without being asked for by id. */
const IN_DAYS_MAX = 3;
const GAPS_SHOWN = 20;

/** `tidemark coverage`: what is complete and what is missing, from the state file alone. */
export function registerCoverage(
  program: Command,
  io: Io,
  openView: (configFile: string) => Promise<{ readonly view: View; close(): Promise<void> }>,
): void {
  withConfig(program.command("coverage"), "tidemark coverage --problems")
    .summary("what has been read and compared, and what is missing")
    .description(
      "Shows a summary, the gaps, and the organizations with the most missing time. With --organization it shows every day: the hours that are unread, read, complete, refused or lost, the service's count against the events held, and when the two were compared.",
    )
    .option("--json", "one JSON object a line, one for each organization and day, with its gaps")
    .option(
      "--problems",
      "only organizations that are refused, behind, unread in part, have a gap, or lack events",
    )
    .option("--organization <ids>", "these organizations, day by day", listOption)
    .option("--since <time>", "only days from then on: a time, or how long ago (7d)", timeOption)
    .option("--limit <count>", "how many organizations at the most", countOption, 20)
    .action(async (flags: Flags) => {
      const { view, close } = await openView(flags.config);
      try {
        await show(view, flags, io);
      } finally {
        await close();
      }
    });
}

async function show(view: View, flags: Flags, io: Io): Promise<void> {
  const { chosen, pages } = await chosenOf(view, flags);
  const isIncomplete = sayIncomplete(io, ...pages);
  if (chosen.length === 0) {
    if (isIncomplete) return;
    if (flags.organization !== undefined)
      throw new UsageError("These organizations are not known. `tidemark status` shows the known ones.");
    if (!flags.json)
      io.stdout.write(
        flags.problems
          ? "No organization has a problem.\n"
          : "Nothing has been planned yet: start `tidemark run`.\n",
      );
    if (!flags.problems) return;
  }
  if (flags.json) return writeJson(view, chosen, flags, io, isIncomplete);
  const isInDays = flags.organization !== undefined || chosen.length <= IN_DAYS_MAX;
  const status = await view.status();
  const gaps = await view.gaps({
    limit: GAPS_SHOWN,
    ...(flags.since === undefined ? {} : { fromMs: flags.since }),
  });
  const first = await view.organizations({ ...EVERYTHING, limit: 1 });
  if (!isIncomplete) sayIncomplete(io, status, gaps, first);
  const blocks = [summaryLines(status, first), gapLines(gaps)];
  for (const block of blocks) if (block.length > 0) io.stdout.write(`${block.join("\n")}\n\n`);
  if (!isInDays) {
    io.stdout.write(`${organizationLines(chosen, flags.limit, status.nowMs).join("\n")}\n`);
    return;
  }
  const gapsOf = await createGapsOf(view, io, startOfDay(flags.since), true);
  for (const organization of chosen) {
    const rows = await daysOf(view, organization, gapsOf, flags.since);
    if (rows.length > 0) io.stdout.write(daysTable(organization, rows));
  }
}

async function writeJson(
  view: View,
  chosen: readonly OrganizationView[],
  flags: Flags,
  io: Io,
  wasIncomplete: boolean,
): Promise<void> {
  const gapsOf = await createGapsOf(view, io, startOfDay(flags.since), wasIncomplete);
  for (const organization of chosen)
    for (const row of await daysOf(view, organization, gapsOf, flags.since))
      io.stdout.write(`${JSON.stringify(row)}\n`);
}

/** The day that a time lies in is shown as a whole. */
function startOfDay(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.floor(ms / DAY_MS) * DAY_MS;
}

async function daysOf(
  view: View,
  organization: OrganizationView,
  gapsOf: GapsOf,
  sinceMs: number | undefined,
): Promise<CoverageRow[]> {
  const { account, id } = organization;
  const windows = await view.windows({ account, organization: id, limit: WINDOWS_MAX });
  return windows === undefined ? [] : rowsOf(organization, windows, await gapsOf(organization), sinceMs);
}

const EVERYTHING = { search: "", problems: false, sort: "lag" as const, offset: 0, limit: PAGE };

/** The worst first. */
async function chosenOf(view: View, flags: Flags) {
  const wanted = flags.organization && new Set(flags.organization.map((id) => id.toLowerCase()));
  const chosen: OrganizationView[] = [];
  const pages: OrganizationsView[] = [];
  for (let offset = 0; ; offset += PAGE) {
    const page = await view.organizations({ ...EVERYTHING, problems: flags.problems === true, offset });
    const { rows } = page;
    pages.push(page);
    chosen.push(...rows.filter(({ id }) => wanted === undefined || wanted.has(id.toLowerCase())));
    if (rows.length < PAGE) return { chosen, pages };
  }
}
