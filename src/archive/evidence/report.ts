import { currentParts } from "../log/current-parts.ts";
import type { LogLeaf } from "../log/leaf.ts";
import type { Verifier } from "../log/note.ts";
import type { ArchiveStore } from "../store/store.ts";
import { type Verification, verifyArchive } from "../verify/verify.ts";
import { readEntries, readLog } from "./read.ts";

export interface ReportOptions {
  readonly key: Verifier | undefined;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly quick?: boolean | undefined;
  readonly nowMs: number;
  readonly signal?: AbortSignal | undefined;
}

interface Month {
  days: Set<string>;
  organizations: Set<string>;
  events: number;
  states: Map<string, number>;
}

/** One page for an auditor: verified first, then told. */
export async function reportHtml(
  store: ArchiveStore,
  options: ReportOptions,
): Promise<{ html: string; isValid: boolean }> {
  const result = await verifyArchive(store, options);
  const log = await readLog(store);
  const months = new Map<string, Month>();
  for (const { leaf, files } of currentParts(log.leaves)) {
    if (files === undefined || leaf.day < (options.from ?? "") || leaf.day > (options.to ?? "9")) continue;
    const month = months.get(leaf.day.slice(0, 7)) ?? {
      days: new Set(),
      organizations: new Set(),
      events: 0,
      states: new Map(),
    };
    months.set(leaf.day.slice(0, 7), month);
    month.days.add(leaf.day);
    month.events += files.events;
    for (const entry of await readEntries(store, files)) {
      if ("gone" in entry) continue;
      month.organizations.add(entry.line.organization);
      month.states.set(entry.line.state, (month.states.get(entry.line.state) ?? 0) + 1);
    }
  }
  const deletions = log.leaves.flatMap((leaf) =>
    leaf.kind === "prune" || leaf.kind === "erase"
      ? [{ kind: leaf.kind, index: leaf.index, time: leaf.time, lines: leaf.removed_lines }]
      : [],
  );
  const holds = log.leaves.filter(
    (leaf) =>
      leaf.kind === "hold" &&
      !log.leaves.some((other) => other.kind === "release" && other.hold === leaf.hold),
  );
  const keys = log.leaves.flatMap((leaf) => (leaf.kind === "key" ? [leaf] : []));
  const html = page(store.place, result, [
    section("Is it whole?", verdict(result, options, log.leaves)),
    section(
      "What is held?",
      table(
        ["Month", "Days", "Organizations", "Events", "Days of organizations by state"],
        [...months].map(([name, month]) => [
          name,
          count(month.days.size),
          count(month.organizations.size),
          count(month.events),
          [...month.states].map(([state, number]) => `${state} ${count(number)}`).join(", "),
        ]),
      ),
    ),
    section(
      "What is missing, and why?",
      result.gaps.length === 0
        ? "<p>Nothing that the archive knows of.</p>"
        : `<p>${count(result.gaps.length)} stretches; the first 200:</p>${table(
            ["Day", "Organization", "From", "To", "Reason"],
            result.gaps.slice(0, 200).map((gap) => [gap.day, gap.organization, gap.from, gap.to, gap.reason]),
          )}`,
    ),
    section(
      "What was deleted, and what is on hold?",
      deletions.length === 0 && holds.length === 0
        ? "<p>Nothing was deleted, and nothing is on hold.</p>"
        : table(
            ["Entry", "Time", "What", "Organizations"],
            [
              ...deletions.map((one) => [String(one.index), one.time, one.kind, count(one.lines)]),
              ...holds.map((leaf) => [String(leaf.index), leaf.time, "hold, in force", ""]),
            ],
          ),
    ),
    section(
      "Who signed it?",
      table(
        ["From entry", "Time", "Key"],
        keys.map((leaf) => [String(leaf.index), leaf.time, leaf.key]),
      ),
    ),
    section(
      "How can I check this myself?",
      `<p>Keep this checkpoint. A later verification with it shows whether anything before it has changed.</p><pre>${escaped(log.checkpoint.bytes.toString())}</pre><p><code>tidemark archive verify --key KEY --since CHECKPOINT</code> checks every byte. docs/auditor.md describes how to do the same with standard tools and with the fsck of the Tessera project, without Tidemark.</p><p>States: <b>complete</b>: two independent looks at the service agree. <b>unchecked</b>: one look. <b>differs</b>: the service returned or counted another number than is held. <b>missing</b>: a stretch was never read; see above. <b>addition</b>: events that arrived after their day was closed.</p><p>The limit: somebody with the signing key and the store can rebuild everything. Cosignatures of a witness, and checkpoints kept elsewhere, are what shows it.</p>`,
    ),
  ]);
  return { html, isValid: result.isValid };
}

function comparison(leaves: readonly LogLeaf[]): string {
  const newest = leaves.findLast((leaf) => leaf.kind === "reconcile");
  if (newest?.kind !== "reconcile") return "never";
  const { asked, from, to, returned, held, missing } = newest;
  return `${asked}: ${from} to ${to}, by identities; returned ${count(returned)}, held ${count(held)}, missing ${count(missing)}`;
}

function verdict(result: Verification, options: ReportOptions, leaves: readonly LogLeaf[]): string {
  const { days, findings, events, size, isPinned, witnessedMs, newestMs } = result;
  const rows = [
    ["Verified", new Date(options.nowMs).toISOString()],
    ["Days valid", `${count(days.valid)} of ${count(days.total)}`],
    ["Log entries", count(size)],
    ["Events read and checked", options.quick ? "none: quick verification" : count(events)],
    ["Key", isPinned ? "given by the verifier" : "not given: the archive is self-consistent only"],
    ["Newest entry", newestMs === undefined ? "none" : new Date(newestMs).toISOString()],
    [
      "Newest cosignature",
      witnessedMs === undefined
        ? "none: times are the operator's claim"
        : new Date(witnessedMs).toISOString(),
    ],
    ["Last comparison with the service", comparison(leaves)],
  ];
  const list =
    findings.length === 0
      ? ""
      : `<h3>Findings</h3>${table(
          ["Where", "What"],
          findings.slice(0, 200).map(({ subject, message }) => [subject, message]),
        )}`;
  return `<p class="${result.isValid ? "good" : "bad"}">${result.isValid ? "Valid" : `Not valid: ${count(findings.length)} findings`}</p>${table(["Check", "Result"], rows)}${list}`;
}

function page(place: string, { origin }: Verification, sections: readonly string[]): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Archive report: ${escaped(origin ?? place)}</title>
<style>
body{font:15px/1.5 system-ui,sans-serif;color:#1a1a1a;max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem;margin:0}h2{font-size:1.15rem;margin:2rem 0 .5rem;border-bottom:1px solid #ccc}h3{font-size:1rem}
table{border-collapse:collapse;width:100%;font-size:.9rem}th,td{text-align:left;padding:.3rem .6rem .3rem 0;border-bottom:1px solid #e5e5e5;vertical-align:top;overflow-wrap:anywhere}
pre{background:#f5f5f5;padding:.8rem;overflow-wrap:anywhere;white-space:pre-wrap;font-size:.8rem}
.good,.bad{font-weight:600;font-size:1.1rem}.good{color:#0a6b2d}.bad{color:#a31515}
@media print{html{font-size:11px}body{margin:0;max-width:none;font-size:1rem}h2{break-after:avoid}tr,pre{break-inside:avoid}}
</style></head><body>
<h1>${escaped(origin ?? "Archive")}</h1><p>${escaped(place)}</p>
${sections.join("\n")}
</body></html>
`;
}

function section(title: string, body: string): string {
  return `<section><h2>${escaped(title)}</h2>${body}</section>`;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = (tag: string, values: readonly string[]) =>
    `<tr>${values.map((value) => `<${tag}>${escaped(value)}</${tag}>`).join("")}</tr>`;
  return `<table><thead>${cells("th", head)}</thead><tbody>${rows.map((row) => cells("td", row)).join("")}</tbody></table>`;
}

function count(value: number): string {
  return value.toLocaleString("en-US");
}

function escaped(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}
