import type { PartFiles } from "../log/leaf.ts";
import type { ReadableStore } from "../store/store.ts";
import { type Check, createFindings, type Finding, type Findings } from "./findings.ts";
import { checkDataFile, checkPart, readManifest } from "./part.ts";

/** Plain data: it is sent to a thread. */
export interface PartOrder {
  readonly files: PartFiles;
  /** The root of the manifest that was closed first, where another one replaced it. */
  readonly original: string | undefined;
  /** The manifest and the store's own hash; the data file is not read (A29). */
  readonly isQuick: boolean;
  /** Only these organizations; empty: all. */
  readonly organizations: readonly string[];
  readonly disabled: readonly Check[];
}

export interface PartResult {
  readonly findings: readonly Finding[];
  readonly findingsLeftOut: number;
  /** Whether the manifest could be read. */
  readonly isRead: boolean;
  readonly lines: number;
  readonly events: number;
  readonly rawBytes: number;
  readonly gaps: readonly GapInDay[];
  readonly differing: readonly DifferingDay[];
}

/** A line whose organization has another number of events at the service than in the archive, by its own claim. */
export interface DifferingDay {
  readonly day: string;
  readonly organization: string;
  readonly held: number;
  readonly returned: number | null;
  readonly counted: number | null;
}

export interface GapInDay {
  readonly day: string;
  readonly organization: string;
  readonly from: string;
  readonly to: string;
  readonly reason: string;
}

export async function checkFilesOf(store: ReadableStore, order: PartOrder): Promise<PartResult> {
  const { files, isQuick } = order;
  const findings = createFindings(order.disabled);
  const organizations = new Set(order.organizations);
  const entries = await readManifest(store, files, order.original, findings);
  const result = (counted: Omit<PartResult, "findings" | "findingsLeftOut">): PartResult => ({
    findings: findings.list,
    findingsLeftOut: findings.leftOut,
    ...counted,
  });
  if (entries === undefined) {
    await (isQuick ? checkQuickly : checkDataFile)(store, files, findings);
    return result({ isRead: false, lines: 0, events: 0, rawBytes: 0, gaps: [], differing: [] });
  }
  const gaps: GapInDay[] = [];
  const differing: DifferingDay[] = [];
  let lines = 0;
  for (const entry of entries) {
    if ("gone" in entry) continue;
    const { organization, missing, state, held, returned, counted } = entry.line;
    if (organizations.size > 0 && !organizations.has(organization)) continue;
    lines++;
    gaps.push(...missing.map((stretch) => ({ day: files.day, organization, ...stretch })));
    if (state === "differs") differing.push({ day: files.day, organization, held, returned, counted });
  }
  let total = { events: 0, rawBytes: 0 };
  if (isQuick) await checkQuickly(store, files, findings);
  else total = await checkPart(store, files, entries, { organizations }, findings);
  return result({ isRead: true, lines, gaps, differing, ...total });
}

async function checkQuickly(store: ReadableStore, files: PartFiles, findings: Findings): Promise<void> {
  const found = await store.stat(files.data);
  if (
    !findings.expect("missing files", found !== undefined, files.data, "MISSING: the file is not there") ||
    found === undefined
  )
    return;
  const isSame =
    found.bytes === files.data_bytes && (found.sha256 === undefined || found.sha256 === files.data_sha256);
  findings.expect("data file hash", isSame, files.data, "INVALID: hash value does not match");
}
