import { dayOf } from "../../core/archive.ts";
import { DAY_MS } from "../../core/time.ts";
import { currentParts } from "../log/current-parts.ts";
import type { LogLeaf } from "../log/leaf.ts";
import type { Verifier } from "../log/note.ts";
import type { ArchiveStore } from "../store/store.ts";
import { type Verification, verifyArchive } from "../verify/verify.ts";
import { type ReadLog, readEntries, readLog } from "./read.ts";
import {
  countText,
  definitions,
  heading,
  listing,
  momentText,
  paragraph,
  ROWS_MAX,
  reportPage,
  section,
  shownText,
  table,
} from "./report-page.ts";
import { removals, retention } from "./report-removals.ts";

/** One page for an auditor. The archive is verified first; the page says with what result. */
export interface ReportOptions {
  readonly key: Verifier | undefined;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly quick?: boolean | undefined;
  readonly nowMs: number;
  readonly signal?: AbortSignal | undefined;
}

const STATES = {
  complete: "two independent looks at the service agree with the number that is held",
  unchecked: "one look at the service",
  differs: "the service returned or counted another number than is held",
  missing: "a stretch of the day was never read; it is named below",
  addition: "events that arrived after their day was closed, or without a usable time",
};

export async function reportHtml(
  store: ArchiveStore,
  options: ReportOptions,
): Promise<{ html: string; isValid: boolean }> {
  const result = await verifyArchive(store, options);
  const scope = `${options.from ?? "the first day"} to ${options.to ?? "the last day"}`;
  const subtitle = `Report about the archive in ${store.place}, ${scope}. Made ${momentText(new Date(options.nowMs).toISOString())}.`;
  let sections: string[];
  try {
    const log = await readLog(store);
    sections = [
      section("Is it whole?", verdict(result, options, log.leaves)),
      section("What is held?", await holdings(store, log, options)),
      section("What is missing, and why?", gapsOf(result)),
      section("What was deleted, and what is on hold?", await removals(store, log)),
      section("How long is it kept?", await retention(store)),
      section("Who signed it?", signers(log)),
      section("How can I check this myself?", ownCheck(log)),
    ];
  } catch (error) {
    // A damaged log or manifest: the verification has named it.
    const note = `The archive cannot be read further: ${(error as Error).message}`;
    sections = [
      section("Is it whole?", verdict({ ...result, isValid: false }, options, []), paragraph(note)),
    ];
    return { html: reportPage(result.origin ?? "Archive", subtitle, sections), isValid: false };
  }
  return { html: reportPage(result.origin ?? "Archive", subtitle, sections), isValid: result.isValid };
}

function verdict(result: Verification, options: ReportOptions, leaves: readonly LogLeaf[]): string {
  const { days, findings, events, size, isPinned, witnessedMs, newestMs, isValid, locked } = result;
  const rows = [
    ["Days valid", `${countText(days.valid)} of ${countText(days.total)}`],
    [
      "Events read and checked",
      options.quick ? "none: data files were not read (--quick)" : countText(events),
    ],
    ["Log entries", countText(size)],
    [
      "Key",
      isPinned
        ? "given by the person who made this report"
        : "not given: the archive agrees with itself, and anybody could have written it",
    ],
    ["Newest entry", newestMs === undefined ? "none" : momentText(new Date(newestMs).toISOString())],
    [
      "Newest cosignature",
      witnessedMs === undefined
        ? "none: times are the operator's claim"
        : momentText(new Date(witnessedMs).toISOString()),
    ],
    ["Last comparison with the service", comparison(leaves)],
    ...(locked.length === 0
      ? []
      : [
          [
            "Deleted files that the store still locks",
            `${countText(locked.length)}, the last until ${momentText(new Date(Math.max(...locked.map(({ untilMs }) => untilMs))).toISOString())}`,
          ],
        ]),
  ];
  const text = isValid
    ? options.quick
      ? "Valid, as far as a quick verification can tell"
      : "Valid"
    : `Not valid: ${countText(findings.length)} findings`;
  return [
    paragraph(text, isValid ? "good" : "bad"),
    table(["Check", "Result"], rows),
    ...(findings.length === 0
      ? []
      : [
          heading("Findings"),
          shownText(findings.length, "findings"),
          table(
            ["Where", "What"],
            findings.slice(0, ROWS_MAX).map(({ subject, message }) => [subject, message]),
          ),
        ]),
  ].join("");
}

function comparison(leaves: readonly LogLeaf[]): string {
  const newest = leaves.findLast((leaf) => leaf.kind === "reconcile");
  if (newest?.kind !== "reconcile") return "never";
  const { asked, from, to, returned, held, missing } = newest;
  return `${momentText(asked)}: ${from} to ${to}, by identities; returned ${countText(returned)}, held ${countText(held)}, missing ${countText(missing)}`;
}

interface Month {
  readonly days: Set<string>;
  readonly organizations: Set<string>;
  events: number;
  readonly states: Map<string, number>;
}

const newMonth = (): Month => ({ days: new Set(), organizations: new Set(), events: 0, states: new Map() });

async function holdings(store: ArchiveStore, { leaves }: ReadLog, options: ReportOptions): Promise<string> {
  const months = new Map<string, Month>();
  const total = newMonth();
  for (const { leaf, files } of currentParts(leaves)) {
    if (leaf.day < (options.from ?? "") || leaf.day > (options.to ?? "9")) continue;
    const name = leaf.day.slice(0, 7);
    const both = [months.get(name) ?? newMonth(), total] as const;
    months.set(name, both[0]);
    // An addition is named after the day of its arrival, which says nothing about that day.
    if (leaf.kind === "day") for (const month of both) month.days.add(leaf.day);
    for (const entry of files === undefined ? [] : await readEntries(store, files)) {
      if ("gone" in entry) continue;
      const { organization, state, events, erased } = entry.line;
      for (const month of both) {
        month.organizations.add(organization);
        month.events += events - erased.length;
        month.states.set(state, (month.states.get(state) ?? 0) + 1);
      }
    }
  }
  if (months.size === 0) return paragraph("No day is closed in this time.");
  const row = (name: string, { days, organizations, events, states }: Month) => [
    name,
    days.size,
    organizations.size,
    events,
    [...states].map(([state, count]) => `${state} ${countText(count)}`).join(", ") || "nothing is left",
  ];
  const rows = [...months].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([name, month]) => row(name, month));
  return [
    paragraph(calendar(total.days)),
    table(
      ["Month", "Days", "Organizations", "Events", "Days of organizations, by state"],
      rows,
      row("All", total),
    ),
    definitions(Object.fromEntries(Object.entries(STATES).filter(([state]) => total.states.has(state)))),
  ].join("");
}

/** Days between the first and the last that have no entry at all. */
function calendar(days: ReadonlySet<string>): string {
  const sorted = [...days].sort();
  if (sorted.length === 0) return "There are additions only.";
  const [first, last] = [sorted[0]!, sorted.at(-1)!];
  const absent: string[] = [];
  for (let ms = Date.parse(first); ms <= Date.parse(last); ms += DAY_MS)
    if (!days.has(dayOf(ms))) absent.push(dayOf(ms));
  return `From ${first} to ${last}: ${countText(days.size)} days. ${
    absent.length === 0
      ? "No day between them is absent."
      : `${countText(absent.length)} days between them have no entry: ${absent.slice(0, 31).join(", ")}${absent.length > 31 ? " …" : ""}.`
  }`;
}

/** Stretches that many organizations share are one row. */
function gapsOf({ gaps }: Verification): string {
  if (gaps.length === 0) return paragraph("Nothing that the archive knows of.");
  const groups = new Map<string, Verification["gaps"][number][]>();
  for (const gap of gaps) {
    const name = `${gap.from} ${gap.to} ${gap.reason}`;
    groups.set(name, [...(groups.get(name) ?? []), gap]);
  }
  const rows = [...groups.values()].map((list) => [
    momentText(list[0]!.from),
    momentText(list[0]!.to),
    list[0]!.reason,
    list.length <= 3
      ? list.map(({ organization }) => organization).join(", ")
      : `${countText(list.length)} organizations, among them ${list[0]!.organization}`,
  ]);
  const isEarly = gaps.some(({ reason }) => reason === "not asked for");
  return [
    shownText(rows.length, "stretches"),
    table(["From", "To", "Reason", "Organizations"], rows.slice(0, ROWS_MAX)),
    isEarly
      ? definitions({ "not asked for": "before the time from which the operator has events read" })
      : "",
  ].join("");
}

function signers({ leaves }: ReadLog): string {
  const who = { key: "operator", witness: "witness", witness_end: "witness, no longer asked" };
  const rows = leaves.flatMap((leaf) =>
    leaf.kind === "key" || leaf.kind === "witness" || leaf.kind === "witness_end"
      ? [[String(leaf.index), momentText(leaf.time), who[leaf.kind], leaf.key]]
      : [],
  );
  return (
    table(["From entry", "Time", "Who", "Public key"], rows) +
    paragraph("Compare the operator's first key with the one that you were given by another way.", "note")
  );
}

function ownCheck({ checkpoint }: ReadLog): string {
  return [
    paragraph(
      "Keep this checkpoint in a file. A later verification with it shows whether anything before it has changed.",
    ),
    listing(checkpoint.bytes.toString()),
    listing("tidemark archive verify --store ARCHIVE --key KEY --since CHECKPOINT"),
    paragraph(
      "This command checks every byte. docs/auditor.md of Tidemark describes all formats, how to do the same with standard tools and a short Python program, and how to check the log with the fsck of the Tessera project, without Tidemark.",
    ),
    paragraph(
      "The limit: somebody with the signing key and the store can rebuild everything. Cosignatures of a witness, and checkpoints that were kept elsewhere, show it.",
    ),
  ].join("");
}
