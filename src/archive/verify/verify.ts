import { hash } from "node:crypto";
import { type CurrentPart, currentParts } from "../log/current-parts.ts";
import type { LogLeaf, PartFiles } from "../log/leaf.ts";
import type { Verifier } from "../log/note.ts";
import type { ArchiveStore } from "../store/store.ts";
import { type Check, createFindings, type Finding, type Findings } from "./findings.ts";
import { type CheckedLog, verifyLog } from "./log.ts";
import { checkDataFile, checkPart, readManifest } from "./part.ts";

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
  readonly origin: string | undefined;
  readonly size: number;
  readonly root: string | undefined;
  readonly days: { readonly valid: number; readonly total: number };
  readonly parts: { readonly checked: number; readonly total: number };
  /** Days of organizations that were asked for, in the manifests that were read. */
  readonly lines: number;
  readonly events: number;
  readonly rawBytes: number;
  readonly gaps: readonly {
    readonly day: string;
    readonly organization: string;
    readonly from: string;
    readonly to: string;
    readonly reason: string;
  }[];
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
  const total: Totals = { events: 0, rawBytes: 0, checked: 0, lines: 0, gaps: [] };
  const days = new Map<string, boolean>();
  for (const part of parts) {
    const { leaf } = part;
    if (!isInside(leaf.day, options)) continue;
    options.signal?.throwIfAborted();
    const before = findings.list.length;
    const files = { ...(part.files ?? leaf), index: leaf.index };
    if (part.files !== undefined && !options.isDone?.(files))
      await checkOne(store, part, log!, options, total, findings);
    const isValid = findings.list.length === before;
    days.set(leaf.day, (days.get(leaf.day) ?? true) && isValid);
    options.onPart?.(leaf.index, isValid, files);
  }
  if (log !== undefined) {
    await checkPolicy(store, log.leaves, findings);
    await checkStrangers(store, log, parts, findings);
    checkAge(log, options, findings);
  }
  const newest = log?.leaves.at(-1);
  return {
    isValid: findings.list.length === 0,
    findings: findings.list,
    origin: log?.checkpoint.origin,
    size: log?.checkpoint.size ?? 0,
    root: log?.checkpoint.root.toString("hex"),
    days: { valid: [...days.values()].filter(Boolean).length, total: days.size },
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
  events: number;
  rawBytes: number;
  checked: number;
  lines: number;
  gaps: Verification["gaps"][number][];
}

function isInside(day: string, { from, to }: VerifyOptions): boolean {
  return (from === undefined || day >= from) && (to === undefined || day <= to);
}

async function checkOne(
  store: ArchiveStore,
  { leaf, files, original }: CurrentPart,
  log: CheckedLog,
  options: VerifyOptions,
  total: Totals,
  findings: Findings,
): Promise<void> {
  const entries = await readManifest(store, files!, original, findings);
  const isQuick = options.quick || !isSampled(log, leaf.index, options);
  if (entries === undefined) return (isQuick ? checkQuickly : checkDataFile)(store, files!, findings);
  total.checked++;
  for (const entry of entries) {
    if ("gone" in entry) continue;
    const { organization, missing } = entry.line;
    if (!isWanted(organization, options)) continue;
    total.lines++;
    total.gaps.push(...missing.map((stretch) => ({ day: leaf.day, organization, ...stretch })));
  }
  if (isQuick) return checkQuickly(store, files!, findings);
  const part = await checkPart(
    store,
    files!,
    entries,
    { organizations: new Set(options.organizations ?? []) },
    findings,
  );
  total.events += part.events;
  total.rawBytes += part.rawBytes;
}

function isWanted(organization: string, { organizations = [] }: VerifyOptions): boolean {
  return organizations.length === 0 || organizations.includes(organization);
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

async function checkQuickly(store: ArchiveStore, files: PartFiles, findings: Findings): Promise<void> {
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
  findings.expect(
    "age",
    ageMs <= maxAgeMs,
    `log entry ${log.checkpoint.size - 1}`,
    `INVALID: the newest entry is ${Math.round(ageMs / 3_600_000)} hours old`,
  );
}
