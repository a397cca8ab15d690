import type { LogLeaf } from "../log/leaf.ts";
import { readText, textPath } from "../log/texts.ts";
import type { ArchiveStore } from "../store/store.ts";
import type { ReadLog } from "./read.ts";
import { countText, listing, momentText, paragraph, ROWS_MAX, shownText, table } from "./report-page.ts";

/* The sections of the report about holds, prunings, erasures and retention. */

async function wordingOf(store: ArchiveStore, hash: string, field: "case" | "reason"): Promise<string> {
  const text = await readText(store, hash);
  if (text === "erased") return "its wording was erased";
  if (text === "changed")
    return `its wording was changed: ${textPath(hash)} does not have the hash that the log entry says`;
  return String((JSON.parse(text.bytes.toString()) as Record<string, unknown>)[field]);
}

export async function removals(store: ArchiveStore, { leaves }: ReadLog): Promise<string> {
  const released = new Set(leaves.flatMap((leaf) => (leaf.kind === "release" ? [leaf.hold] : [])));
  const rows: string[][] = [];
  for (const leaf of leaves)
    if (leaf.kind === "hold" && !released.has(leaf.hold)) {
      const about = `${leaf.from ?? "the first day"} to ${leaf.to ?? "the last day"}`;
      const why = await wordingOf(store, leaf.case_hash, "case");
      rows.push([String(leaf.index), momentText(leaf.time), "hold, in force", about, why]);
    }
  for (const [reason, list] of orders(leaves)) {
    const [first, last] = [list[0]!, list.at(-1)!];
    const days = list.map(({ leaf }) => dayOfPart(leaves[leaf])).sort();
    const events = list.reduce((sum, leaf) => sum + (leaf.kind === "erase" ? leaf.removed_events : 0), 0);
    const lines = list.reduce((sum, leaf) => sum + leaf.removed_lines, 0);
    const what = first.kind === "erase" ? `${countText(events)} events; ` : "";
    rows.push([
      list.length === 1 ? String(first.index) : `${first.index} to ${last.index}`,
      momentText(first.time),
      first.kind === "erase" ? "erased" : "pruned",
      `${days[0]} to ${days.at(-1)}: ${what}${countText(lines)} whole days of organizations`,
      first.kind === "erase" ? await wordingOf(store, reason, "reason") : policyOf(list, reason),
    ]);
  }
  if (rows.length === 0) return paragraph("Nothing was deleted, and nothing is on hold.");
  return (
    shownText(rows.length, "orders") + table(["Entry", "Time", "What", "About", "Why"], rows.slice(-ROWS_MAX))
  );
}

function policyOf(list: readonly Removal[], policy: string): string {
  const isUnconfirmed = list.some((leaf) => leaf.kind === "prune" && leaf.clock !== undefined);
  return `policy ${policy}${isUnconfirmed ? "; nothing confirmed the clock" : ""}`;
}

type Removal = Extract<LogLeaf, { kind: "prune" | "erase" }>;

/** Entries of one order: an erasure by its reason, a pruning by its day and policy. */
function orders(leaves: readonly LogLeaf[]): [string, Removal[]][] {
  const found = new Map<string, [string, Removal[]]>();
  for (const leaf of leaves) {
    if (leaf.kind !== "prune" && leaf.kind !== "erase") continue;
    const reason = leaf.kind === "erase" ? leaf.reason_hash : leaf.policy;
    const name = leaf.kind === "erase" ? reason : `${leaf.time.slice(0, 10)} ${reason}`;
    const order = found.get(name) ?? [reason, []];
    order[1].push(leaf);
    found.set(name, order);
  }
  return [...found.values()];
}

function dayOfPart(leaf: LogLeaf | undefined): string {
  return leaf !== undefined && "day" in leaf ? leaf.day : "";
}

export async function retention(store: ArchiveStore): Promise<string> {
  const text = (await store.read("policy.json"))?.toString();
  if (text === undefined) return paragraph("policy.json is missing.");
  try {
    const { classes } = JSON.parse(text) as { classes: { name: string; keep: string }[] };
    return table(
      ["Class", "Kept for"],
      classes.map(({ name, keep }) => [name, keep]),
    );
  } catch {
    return listing(text);
  }
}
