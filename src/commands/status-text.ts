import { sinkHealth } from "../core/sink-health.ts";
import { formatDuration } from "../core/time.ts";
import type { OrganizationsView, OrganizationView } from "../core/view/organizations.ts";
import type { SinksView, SinkView } from "../core/view/sinks.ts";
import type { AccountView, StatusView } from "../core/view/status.ts";
import { counted } from "./count-words.ts";
import { stateText } from "./organization-state.ts";

/** `incomplete` is that of the sinks; the other parts have their own. */
export interface Snapshot extends SinksView {
  readonly status: StatusView;
  readonly organizations: OrganizationsView;
}

type Paint = "bold" | "dim" | "good" | "warn" | "bad";
const CODES: Readonly<Record<Paint, string>> = { bold: "1", dim: "2", good: "32", warn: "33", bad: "31" };
type Painter = (paint: Paint, text: string) => string;

/** The whole status in a person's words, within the width given. */
export function statusText(
  { status, sinks, organizations }: Snapshot,
  options: { readonly width: number; readonly color: boolean },
): string {
  const paint: Painter = (name, text) => (options.color ? `\x1b[${CODES[name]}m${text}\x1b[0m` : text);
  const table = (head: readonly string[], rows: readonly Row[]) => tableOf(head, rows, options.width, paint);
  const blocks = [
    headOf(status, sinks, paint),
    status.alarms
      .map(
        ({ severity, kind, subject, message, remedy }) =>
          `${paint(severity === "critical" ? "bad" : "warn", `${severity} ${kind} ${subject}`)}: ${message}\n  ${remedy}`,
      )
      .join("\n"),
    table(
      ["ACCOUNT", "STATE", "ORGANIZATIONS", "BEHIND", "UNREAD", "LOSS IN"],
      status.accounts.map(accountRow),
    ),
    table(
      ["SINK", "TYPE", "STATE", "WAITING", "BEHIND", "SENT", "DEAD LETTERS"],
      sinks.map((sink) => sinkRow(sink, status.nowMs)),
    ),
    sinks.map((sink) => healthLines(sink, status, paint)).join("\n"),
    table(
      [`ORGANIZATION (worst of ${organizations.total})`, "STATE", "BEHIND", "LAST EVENT", "EVENTS/H"],
      organizations.rows.map((row) => organizationRow(row, status.nowMs)),
    ),
  ];
  return `${blocks.filter((block) => block !== "").join("\n\n")}\n`;
}

function headOf(status: StatusView, sinks: readonly SinkView[], paint: Painter): string {
  const { totals, journal } = status;
  const paints = { good: "good", degraded: "warn", bad: "bad" } as const;
  const running = paint(paints[status.health], status.headline);
  const upMs = status.startedMs === null ? null : status.nowMs - status.startedMs;
  const used =
    journal.budgetBytes === null || journal.budgetBytes === 0
      ? ""
      : ` (${((journal.usedBytes / journal.budgetBytes) * 100).toFixed(1)}% of its budget)`;
  const windows = totals.windows;
  return [
    `${paint("bold", `Tidemark ${status.version}`)}${status.shard === null ? "" : `, shard ${status.shard}`}${upMs === null ? "" : `, up ${formatDuration(upMs)}`}. ${running}`,
    `${counted(totals.events, "event")} read. In closed windows the service counts ${totals.apiCount}, ${totals.heldCount} are held; ${counted(totals.differing, "window")} ${totals.differing === 1 ? "differs" : "differ"}. ${counted(totals.late, "event")} arrived late.`,
    ...gapLines(totals.gaps, paint),
    `Windows: ${windows.sealed} sealed, ${windows.read} read, ${windows.live} live, ${windows.unread} unread, ${windows.refused} refused or not asked for, ${windows.expired} expired.`,
    `Journal: ${megabytes(journal.usedBytes)}${used}${journal.heldUpBy === null ? "" : `; ${journal.backlogEvents} events wait for ${journal.heldUpBy}`}. Sinks: ${sinks.filter(({ state }) => state === "running").length} of ${sinks.length} running.`,
  ].join("\n");
}

function gapLines(
  { gaps, organizations, durationMs, events, open, openMs, aside, asideMs }: StatusView["totals"]["gaps"],
  paint: Painter,
): string[] {
  const lost =
    gaps === 0
      ? []
      : [
          paint(
            "bad",
            `Lost: ${formatDuration(durationMs)} of ${organizations} organizations in ${gaps} gaps, ${events} events known to be missing. \`tidemark coverage --problems\` shows them.`,
          ),
        ];
  const refused =
    open === 0
      ? []
      : [
          paint(
            "warn",
            `Refused at the moment: ${formatDuration(openMs)} in ${open} time ranges; they are tried again.`,
          ),
        ];
  const notAsked =
    aside === 0
      ? []
      : [
          `Not asked for: ${formatDuration(asideMs)} in ${counted(aside, "time range")} of organizations that are not in the config any more, or that the service no longer lists.`,
        ];
  return [...lost, ...refused, ...notAsked];
}

interface Row {
  readonly cells: readonly string[];
  readonly paint?: Paint | undefined;
}

function accountRow(account: AccountView): Row {
  const { organizations, windows, liveLagMs, lossInMs } = account;
  const aside = organizations.refused + organizations.vanished;
  return {
    cells: [
      account.name,
      account.state,
      aside === 0 ? String(organizations.active) : `${organizations.active} + ${aside} aside`,
      liveLagMs === null ? "-" : formatDuration(liveLagMs),
      String(windows.unread),
      lossInMs === null ? "-" : formatDuration(lossInMs),
    ],
    paint: account.state === "paused" ? "bad" : undefined,
  };
}

const SINK_PAINT: Readonly<Partial<Record<SinkView["state"], Paint>>> = {
  retrying: "warn",
  paused: "bad",
  stopped: "bad",
};

const HEALTH_PAINT = { good: "good", degraded: "warn", bad: "bad" } as const;

/** One line for each sink; the reason of a problem follows unless an alarm has it. */
function healthLines(sink: SinkView, { alarms, nowMs }: StatusView, paint: Painter): string {
  const { health, line } = sinkHealth(sink, nowMs);
  const head = `${paint(HEALTH_PAINT[health], sink.name)}: ${line}`;
  if (sink.reason === null || alarms.some(({ subject }) => subject === sink.name)) return head;
  return [head, `  ${sink.reason}`, ...(sink.remedy === null ? [] : [`  ${sink.remedy}`])].join("\n");
}

function sinkRow(sink: SinkView, nowMs: number): Row {
  const since = sink.sinceMs === null ? "" : ` ${formatDuration(Math.max(0, nowMs - sink.sinceMs))}`;
  return {
    cells: [
      sink.name,
      sink.type ?? "not in the config",
      `${sink.state}${since}`,
      `${sink.isFiltered && sink.lagEvents > 0 ? "up to " : ""}${sink.lagEvents}`,
      sink.lagEvents === 0 ? "-" : formatDuration(sink.lagMs),
      sink.sentEvents === null ? "-" : String(sink.sentEvents),
      String(sink.deadLetters),
    ],
    paint: SINK_PAINT[sink.state],
  };
}

function organizationRow(row: OrganizationView, nowMs: number): Row {
  return {
    cells: [
      row.name,
      stateText(row),
      row.lagMs === null ? "-" : formatDuration(row.lagMs),
      row.lastEventMs === null ? "-" : `${formatDuration(Math.max(0, nowMs - row.lastEventMs))} ago`,
      row.eventsPerHour === null ? "-" : String(Math.round(row.eventsPerHour)),
    ],
    paint: row.state === "refused" ? "warn" : undefined,
  };
}

/** The first column takes what the others leave and is cut; numbers stay whole. */
function tableOf(head: readonly string[], rows: readonly Row[], width: number, paint: Painter): string {
  if (rows.length === 0) return "";
  const widths = head.map((title, at) =>
    Math.max(title.length, ...rows.map(({ cells }) => cells[at]!.length)),
  );
  const others = widths.slice(1).reduce((sum, one) => sum + one + 2, 0);
  widths[0] = Math.max(12, Math.min(widths[0]!, width - others));
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, at) => (at === 0 ? cut(cell, widths[0]!).padEnd(widths[0]!) : cell.padEnd(widths[at]!)))
      .join("  ")
      .trimEnd();
  return [
    paint("dim", line(head)),
    ...rows.map((row) => (row.paint === undefined ? line(row.cells) : paint(row.paint, line(row.cells)))),
  ].join("\n");
}

function cut(text: string, length: number): string {
  // A name is whatever the service calls it: control characters would move the cursor.
  const clean = text.replace(/[\u0000-\u001f\u007f-\u009f]/g, " ");
  return clean.length <= length ? clean : `${clean.slice(0, length - 1)}…`;
}

function megabytes(bytes: number): string {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
