import { isSetAside } from "../core/roster.ts";
import { formatDuration } from "../core/time.ts";
import type { GapsView } from "../core/view/gaps.ts";
import type { OrganizationsView, OrganizationView } from "../core/view/organizations.ts";
import type { StatusView } from "../core/view/status.ts";
import { counted } from "./count-words.ts";
import type { CoverageRow } from "./coverage-rows.ts";
import { minuteText, stateText } from "./organization-state.ts";

export function summaryLines({ totals }: StatusView, organizations: OrganizationsView): string[] {
  const { windows, apiCount, heldCount, differing, late } = totals;
  const known = counted(totals.organizations, "organization");
  return [
    `${known}, ${organizations.problems} with a problem.`,
    `Time ranges: ${windows.sealed} complete, ${windows.read} read, ${windows.live} live, ${windows.unread} unread, ${windows.refused} refused or not asked for, ${windows.expired} lost.`,
    `The service counts ${apiCount} events in closed time ranges, ${heldCount} are held; ${differing} time ranges differ. ${late} events appeared late.`,
    ...(totals.doubted > 0
      ? [
          `${counted(totals.doubted, "time range")} may lack events, because the service listed some events twice there: "tidemark reconcile --since" compares again.`,
        ]
      : []),
  ];
}

/** Gaps are remembered for as long as the state file lives, also past the service's 90 days. */
export function gapLines({ totals, gaps }: GapsView): string[] {
  if (gaps.length === 0) return ["No gaps."];
  const lines = gaps.map((gap) => {
    const owner = gap.provider ?? gap.organization ?? "own organization";
    const events = gap.events === null ? "" : `, ${gap.events} events`;
    const again = gap.open && gap.nextMs !== null ? `; tried again ${minuteText(gap.nextMs)}` : "";
    const length = formatDuration(gap.toMs - gap.fromMs);
    return `  ${gap.account}  ${owner}  ${minuteText(gap.fromMs)} to ${minuteText(gap.toMs)} (${length}${events})  ${isSetAside(gap.detail) ? "not asked for" : gap.reason}: ${gap.detail}${again}`;
  });
  const all = totals.gaps + totals.open + totals.aside;
  const head = `Gaps: ${totals.gaps} (${formatDuration(totals.durationMs)} of ${totals.organizations} organizations, ${totals.events} events known to be missing), ${totals.open} refused at the moment, ${totals.aside} not asked for.`;
  const more = all > gaps.length ? [`  ${all - gaps.length} more: GET /api/gaps lists all of them.`] : [];
  return [head, ...lines, ...more];
}

/** One line for each organization, the worst first. */
export function organizationLines(
  chosen: readonly OrganizationView[],
  limit: number,
  nowMs: number,
): string[] {
  const head = [
    "account",
    "organization",
    "state",
    "behind",
    "unread",
    "lost",
    "service",
    "held",
    "last event",
  ];
  const cells = chosen
    .slice(0, limit)
    .map(({ account, id, name, lagMs, unreadMs, gapMs, apiCount, heldCount, lastEventMs, ...row }) => [
      account,
      name === id ? id : `${name} ${id}`.trim(),
      stateText(row),
      lagMs === null ? "-" : formatDuration(lagMs),
      unreadMs === 0 ? "-" : formatDuration(unreadMs),
      gapMs === 0 ? "-" : formatDuration(gapMs),
      apiCount === null ? "-" : String(apiCount),
      heldCount === null ? "-" : String(heldCount),
      lastEventMs === null ? "-" : `${formatDuration(Math.max(0, nowMs - lastEventMs))} ago`,
    ]);
  const left = chosen.length - cells.length;
  const more =
    left > 0
      ? [`${left} more. Choose with --problems, --organization or --limit; --json prints every day of all.`]
      : [];
  return [...table(head, cells), ...more];
}

function table(head: readonly string[], rows: readonly (readonly string[])[], indent = ""): string[] {
  const widths = head.map((title, at) => Math.max(title.length, ...rows.map((row) => row[at]!.length)));
  return [head, ...rows].map((row) =>
    `${indent}${row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join("  ")}`.trimEnd(),
  );
}

const HEADINGS = [
  "day",
  "unread",
  "read",
  "complete",
  "refused",
  "lost",
  "late",
  "service",
  "held",
  "compared",
  "",
];

export function daysTable(organization: OrganizationView, rows: readonly CoverageRow[]): string {
  const { account, id, name, state } = organization;
  const aside = state === "vanished" ? `  (${stateText(organization)})` : "";
  const cells = rows.map((row) => [
    row.day,
    ...[row.unreadHours, row.readHours, row.sealedHours, row.refusedHours, row.gapHours].map((value) =>
      value === 0 ? "" : `${value}h`,
    ),
    row.late === null || row.late === 0 ? "" : String(row.late),
    row.apiCount === null ? "" : String(row.apiCount),
    row.heldCount === null ? "" : String(row.heldCount),
    row.lastAsked === null ? "never" : `${row.lastAsked.slice(0, 19)}Z`,
    noteOf(row),
  ]);
  return [
    `${account}  ${name}${id === "" || id === name ? "" : `  ${id}`}${aside}`,
    ...table(HEADINGS, cells, "  "),
    "",
    "",
  ].join("\n");
}

const REASONS_SHOWN = 3;

function noteOf({ reasons }: CoverageRow): string {
  if (reasons.length === 0) return "";
  const more = reasons.length - REASONS_SHOWN;
  return `(${[...reasons.slice(0, REASONS_SHOWN), ...(more > 0 ? [`${more} more`] : [])].join("; ")})`;
}
