import type { Command } from "commander";
import { UsageError } from "../core/errors.ts";
import type { OrganizationView } from "../core/view/organizations.ts";
import type { WindowsView } from "../core/view/windows.ts";
import type { View } from "../core/view.ts";
import type { Io } from "./io.ts";
import { listOption, timeOption, withConfig } from "./options.ts";

interface Flags {
  readonly config: string;
  readonly json?: boolean;
  readonly organization?: string[];
  readonly since?: number;
}

const PAGE = 1000;
const WINDOWS_MAX = 5000;
const DAY_MS = 86_400_000;
const HOURS = 24;

/** `tidemark coverage`: what is complete, day by day, from the state file alone. */
export function registerCoverage(
  program: Command,
  io: Io,
  openView: (configFile: string) => Promise<{ readonly view: View; close(): Promise<void> }>,
): void {
  withConfig(program.command("coverage"), "tidemark coverage --since 7d --organization 5f0c…")
    .summary("what has been read, compared and sealed, for each organization and day")
    .description(
      "Shows for each organization and day how many hours are unread, read, sealed, refused or a gap, what the service said it has against what is held, how many events came late, and when the service was asked last.",
    )
    .option("--json", "one JSON object a line, one for each organization and day")
    .option("--organization <ids>", "only these organizations", listOption)
    .option("--since <time>", "only days from then on: a time, or how long ago (7d)", timeOption)
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
  const wanted = flags.organization && new Set(flags.organization.map((id) => id.toLowerCase()));
  let shown = 0;
  for await (const organization of organizationsOf(view)) {
    if (wanted !== undefined && !wanted.has(organization.id.toLowerCase())) continue;
    const { account, id } = organization;
    const windows = await view.windows({ account, organization: id, limit: WINDOWS_MAX });
    if (windows === undefined) continue;
    const rows = rowsOf(organization, windows, flags.since);
    shown += rows.length;
    if (rows.length > 0) io.stdout.write(flags.json ? linesOf(rows) : tableOf(organization, rows));
  }
  if (shown > 0) return;
  if (wanted !== undefined)
    throw new UsageError(
      "Nothing is known of these organizations: see `tidemark status` for those that are.",
    );
  if (!flags.json) io.stdout.write("Nothing has been planned yet: start `tidemark run`.\n");
}

async function* organizationsOf(view: View): AsyncGenerator<OrganizationView> {
  for (let offset = 0; ; offset += PAGE) {
    const { rows } = await view.organizations({
      search: "",
      problems: false,
      sort: "name",
      offset,
      limit: PAGE,
    });
    yield* rows;
    if (rows.length < PAGE) return;
  }
}

interface CoverageRow {
  readonly account: string;
  readonly organization: string;
  readonly day: string;
  readonly unreadHours: number;
  readonly readHours: number;
  readonly sealedHours: number;
  readonly refusedHours: number;
  /** Forgotten by the service before it was read. */
  readonly gapHours: number;
  readonly late: number;
  /** null: no window that lies in this day alone has been read as a whole. */
  readonly apiCount: number | null;
  readonly heldCount: number | null;
  /** Above 1 the counts are those of so many organizations that are read together. */
  readonly groupSize: number;
  readonly lastAsked: string | null;
  readonly reasons: readonly string[];
}

function rowsOf(
  { account, id }: OrganizationView,
  { days, windows }: WindowsView,
  sinceMs: number | undefined,
): CoverageRow[] {
  const rows: CoverageRow[] = [];
  for (const day of days) {
    const fromMs = Date.parse(day.day);
    const covered = day.expired + day.refused + day.unread + day.live + day.read + day.sealed;
    if (covered === 0 || (sinceMs !== undefined && fromMs + DAY_MS <= sinceMs)) continue;
    const within = windows.filter((window) => window.fromMs < fromMs + DAY_MS && window.toMs > fromMs);
    const asked = within.map(({ askedMs }) => askedMs).filter((ms) => ms !== null);
    rows.push({
      account,
      organization: id,
      day: day.day,
      unreadHours: hours(day.unread),
      readHours: hours(day.read + day.live),
      sealedHours: hours(day.sealed),
      refusedHours: hours(day.refused),
      gapHours: hours(day.expired),
      late: day.late,
      apiCount: day.apiCount,
      heldCount: day.heldCount,
      groupSize: Math.max(1, ...within.map(({ groupSize }) => groupSize)),
      lastAsked: asked.length === 0 ? null : new Date(Math.max(...asked)).toISOString(),
      reasons: [...new Set(within.map(({ reason }) => reason).filter((reason) => reason !== null))],
    });
  }
  return rows;
}

function hours(share: number): number {
  return Math.round(share * HOURS * 100) / 100;
}

function linesOf(rows: readonly CoverageRow[]): string {
  return rows.map((row) => `${JSON.stringify(row)}\n`).join("");
}

const HEADINGS = [
  "day",
  "unread",
  "read",
  "sealed",
  "refused",
  "gap",
  "late",
  "service",
  "held",
  "asked last",
];

function tableOf({ account, id, name }: OrganizationView, rows: readonly CoverageRow[]): string {
  const cells = rows.map((row) => [
    row.day,
    ...[row.unreadHours, row.readHours, row.sealedHours, row.refusedHours, row.gapHours].map((value) =>
      value === 0 ? "" : `${value}h`,
    ),
    row.late === 0 ? "" : String(row.late),
    row.apiCount === null ? "" : String(row.apiCount),
    row.heldCount === null ? "" : String(row.heldCount),
    row.lastAsked === null ? "never" : `${row.lastAsked.slice(0, 19)}Z`,
  ]);
  const widths = HEADINGS.map((heading, at) =>
    Math.max(heading.length, ...cells.map((line) => line[at]!.length)),
  );
  const line = (texts: readonly string[], note: string) =>
    `  ${texts.map((text, at) => text.padEnd(widths[at]!)).join("  ")}${note}`.trimEnd();
  const notes = rows.map(({ groupSize, reasons }) =>
    [...(groupSize > 1 ? [`counts of ${groupSize} read together`] : []), ...reasons].join("; "),
  );
  return [
    `${account}  ${name}${id === "" || id === name ? "" : `  ${id}`}`,
    line(HEADINGS, ""),
    ...cells.map((texts, at) => line(texts, notes[at] === "" ? "" : `  (${notes[at]})`)),
    "",
    "",
  ].join("\n");
}
