import { hash } from "node:crypto";
import { type CurrentPart, currentParts } from "../log/current-parts.ts";
import type { LogLeaf, PartFiles } from "../log/leaf.ts";
import type { Verifier } from "../log/note.ts";
import type { ArchiveStore } from "../store/store.ts";
import type { GapInDay, PartResult } from "./check-part.ts";
import { type Checkers, createCheckers } from "./checkers.ts";
import { type Check, createFindings, type Finding, type Findings } from "./findings.ts";
import { type CheckedLog, verifyLog } from "./log.ts";

/**
 * Checks a whole archive, or a part of it, with nothing but the store and a key. What it says is relative to the
 * checkpoint that the auditor kept: without one, an archive that was rebuilt from scratch looks the same.
 */
export interface VerifyOptions {
  readonly key?: Verifier | undefined;
  readonly since?: Buffer | undefined;
  readonly witnesses?: readonly Verifier[] | undefined;
  /** Log, manifests and the store's own hashes; no data file is read (A29). */
  readonly quick?: boolean | undefined;
  readonly organizations?: readonly string[] | undefined;
  /** Days as 2026-11-15, both included. */
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  /** Of the data files, between 0 and 100; chosen by the root, so that they cannot be predicted. */
  readonly samplePercent?: number | undefined;
  readonly maxAgeMs?: number | undefined;
  readonly nowMs: number;
  /** Whether an earlier verification has checked these files. */
  isDone?(files: CheckedFiles): boolean;
  onPart?(index: number, isValid: boolean, files: CheckedFiles): void;
  readonly signal?: AbortSignal | undefined;
  readonly disabled?: readonly Check[] | undefined;
}

/** The files of a part as they are now, and the index of its log entry. */
export type CheckedFiles = PartFiles & { readonly index: number };

export interface Verification {
  readonly isValid: boolean;
  readonly findings: readonly Finding[];
  /** Further findings, which are not listed. */
  readonly findingsLeftOut: number;
  readonly origin: string | undefined;
  readonly size: number;
  readonly root: string | undefined;
  readonly days: { readonly valid: number; readonly total: number };
  readonly parts: { readonly checked: number; readonly total: number };
  /** Days of organizations that were asked for, in the manifests that were read. */
  readonly lines: number;
  readonly events: number;
  readonly rawBytes: number;
  readonly gaps: readonly GapInDay[];
  readonly newestMs: number | undefined;
  readonly witnessedMs: number | undefined;
  /** False without a pinned key: then the archive only agrees with itself (A20). */
  readonly isPinned: boolean;
}

export async function verifyArchive(store: ArchiveStore, options: VerifyOptions): Promise<Verification> {
  const findings = createFindings(options.disabled);
  const { key, since, witnesses = [] } = options;
  const log = await verifyLog(store, { key, since, witnesses }, findings);
  const parts = currentParts(log?.leaves ?? []);
  const total = await checkParts(store, parts, log, options, findings);
  if (log !== undefined) {
    await checkPolicy(store, log.leaves, findings);
    await checkStrangers(store, log, parts, findings);
    checkAge(log, options, findings);
  }
  const newest = log?.leaves.at(-1);
  return {
    isValid: findings.list.length === 0,
    findings: findings.list,
    findingsLeftOut: findings.leftOut + total.findingsLeftOut,
    origin: log?.checkpoint.origin,
    size: log?.checkpoint.size ?? 0,
    root: log?.checkpoint.root.toString("hex"),
    days: { valid: [...total.days.values()].filter(Boolean).length, total: total.days.size },
    parts: { checked: total.checked, total: parts.length },
    lines: total.lines,
    events: total.events,
    rawBytes: total.rawBytes,
    gaps: total.gaps,
    newestMs: newest === undefined ? undefined : Date.parse(newest.time),
    witnessedMs: log?.witnessedMs,
    isPinned: key !== undefined,
  };
}

interface Totals {
  readonly days: ReadonlyMap<string, boolean>;
  readonly events: number;
  readonly rawBytes: number;
  readonly checked: number;
  readonly lines: number;
  readonly gaps: readonly GapInDay[];
  readonly findingsLeftOut: number;
}

/** Several parts are checked at a time; findings and `onPart` come in the order of the log. */
async function checkParts(
  store: ArchiveStore,
  parts: readonly CurrentPart[],
  log: CheckedLog | undefined,
  options: VerifyOptions,
  findings: Findings,
): Promise<Totals> {
  const wanted = parts.filter(({ leaf }) => isInside(leaf.day, options));
  // A quick check reads little, and one part needs no threads.
  const checkers = createCheckers(store, options.quick || wanted.length < 2 ? 1 : undefined);
  const days = new Map<string, boolean>();
  const gaps: GapInDay[] = [];
  let [events, rawBytes, checked, lines, findingsLeftOut] = [0, 0, 0, 0, 0];
  const started: Promise<PartResult | undefined>[] = [];
  const start = (part: CurrentPart | undefined) => {
    if (part === undefined) return;
    const result = checkOne(checkers, part, log!, options);
    // It is awaited in its turn, which may be after it failed.
    result.catch(() => {});
    started.push(result);
  };
  try {
    for (let at = 0; at < checkers.width; at++) start(wanted[at]);
    for (const [at, { leaf, files }] of wanted.entries()) {
      options.signal?.throwIfAborted();
      const result = await started.shift();
      start(wanted[at + checkers.width]);
      if (result !== undefined) {
        for (const finding of result.findings) findings.add(finding);
        events += result.events;
        rawBytes += result.rawBytes;
        checked += Number(result.isRead);
        lines += result.lines;
        findingsLeftOut += result.findingsLeftOut;
        gaps.push(...result.gaps);
      }
      const isValid = result === undefined || result.findings.length === 0;
      days.set(leaf.day, (days.get(leaf.day) ?? true) && isValid);
      options.onPart?.(leaf.index, isValid, { ...(files ?? leaf), index: leaf.index });
    }
  } finally {
    await checkers.close();
  }
  return { days, events, rawBytes, checked, lines, gaps, findingsLeftOut };
}

/** Undefined where all of the part is gone, or an earlier verification has checked it. */
async function checkOne(
  checkers: Checkers,
  { leaf, files, original }: CurrentPart,
  log: CheckedLog,
  options: VerifyOptions,
): Promise<PartResult | undefined> {
  if (files === undefined || options.isDone?.({ ...files, index: leaf.index })) return undefined;
  return checkers.check({
    files,
    original,
    isQuick: options.quick === true || !isSampled(log, leaf.index, options),
    organizations: options.organizations ?? [],
    disabled: options.disabled ?? [],
  });
}

function isInside(day: string, { from, to }: VerifyOptions): boolean {
  return (from === undefined || day >= from) && (to === undefined || day <= to);
}

function isSampled(
  { checkpoint }: CheckedLog,
  index: number,
  { samplePercent = 100 }: VerifyOptions,
): boolean {
  const draw =
    hash("sha256", `${checkpoint.root.toString("hex")} ${index}`, "buffer").readUInt32BE(0) / 2 ** 32;
  return draw * 100 < samplePercent;
}

async function checkPolicy(
  store: ArchiveStore,
  leaves: readonly LogLeaf[],
  findings: Findings,
): Promise<void> {
  const newest = leaves.findLast((leaf) => leaf.kind === "policy");
  if (newest === undefined) return;
  const bytes = (await store.read("policy.json")) ?? Buffer.alloc(0);
  const isSame = hash("sha256", bytes, "hex") === newest.policy_sha256;
  findings.expect("policy.json", isSame, "policy.json", "INVALID: it is not the policy of the log");
}

/** Files that nothing in the log explains: `zstdcat` would print what somebody put there. */
async function checkStrangers(
  store: ArchiveStore,
  log: CheckedLog,
  parts: readonly CurrentPart[],
  findings: Findings,
): Promise<void> {
  const known = new Set([
    ...log.files,
    "policy.json",
    ...parts.flatMap(({ files }) => (files ? [files.data, files.manifest] : [])),
  ]);
  for await (const { path } of store.list(""))
    findings.expect(
      "unexpected files",
      known.has(path) || isText(path, log.leaves),
      path,
      "UNEXPECTED: nothing in the log explains this file",
    );
}

/** The texts of cases and reasons are beside the log and can be erased (A18). */
function isText(path: string, leaves: readonly LogLeaf[]): boolean {
  const match = /^texts\/([0-9a-f]{64})\.json$/.exec(path);
  return match !== null && leaves.some((leaf) => JSON.stringify(leaf).includes(match[1]!));
}

function checkAge(log: CheckedLog, { maxAgeMs, nowMs }: VerifyOptions, findings: Findings): void {
  if (maxAgeMs === undefined) return;
  const newest = log.leaves.at(-1);
  const ageMs = newest === undefined ? Number.POSITIVE_INFINITY : nowMs - Date.parse(newest.time);
  const isAhead = ageMs < -AHEAD_MS_MAX;
  findings.expect(
    "age",
    ageMs <= maxAgeMs && !isAhead,
    `log entry ${log.checkpoint.size - 1}`,
    isAhead
      ? `INVALID: the newest entry is dated ${newest!.time}, which is in the future: its age is not known. Correct the clock of this machine, or of the one that closes days`
      : `INVALID: the newest entry is ${Math.round(ageMs / 3_600_000)} hours old`,
  );
}

/** How far the clocks of two machines may differ. */
const AHEAD_MS_MAX = 600_000;
