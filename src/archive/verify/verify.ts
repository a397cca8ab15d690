import { hash } from "node:crypto";
import { CLOSING_FILE } from "../log/closing.ts";
import { type CurrentPart, currentParts } from "../log/current-parts.ts";
import type { LogLeaf, PartFiles } from "../log/leaf.ts";
import type { LockedFile } from "../log/locked.ts";
import type { Verifier } from "../log/note.ts";
import type { ArchiveStore } from "../store/store.ts";
import type { DifferingDay, GapInDay, PartResult } from "./check-part.ts";
import { type Checkers, createCheckers } from "./checkers.ts";
import { type Check, createFindings, type Finding, type Findings } from "./findings.ts";
import { type CheckedLog, verifyLog } from "./log.ts";
import type { EndedWitness } from "./signatures.ts";
import { checkStrangers, type Strangers } from "./strangers.ts";
import { checkTexts } from "./texts.ts";

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
  /** For a second look at files that are about to be removed; without it there is none. */
  sleep?(ms: number, signal: AbortSignal): Promise<void>;
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
  /** Files that the archive has announced and that no checkpoint covers yet. They are not checked. */
  readonly closing: { readonly sinceMs: number; readonly paths: readonly string[] } | undefined;
  /** Files that are no longer part of the archive. The store has locked them, so they are not removed yet. */
  readonly locked: readonly LockedFile[];
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
  /** No finding: the archive says so itself. */
  readonly differing: readonly DifferingDay[];
  readonly newestMs: number | undefined;
  readonly witnessedMs: number | undefined;
  /** Witnesses that the log names and that have not cosigned the newest checkpoint. */
  readonly unwitnessed: readonly string[];
  /** No finding: the log says since when they are no longer asked. */
  readonly endedWitnesses: readonly EndedWitness[];
  /** False without a pinned key: then the archive only agrees with itself (A20). */
  readonly isPinned: boolean;
}

/*
 * An archive may grow while it is verified: a day is closed, an organization is erased. The log says at every moment
 * which files belong to it, so findings count only if the log is still the one that they were judged by. Otherwise
 * there is another look, by the new log: parts that were sound are not read again, and only the files that were
 * strangers before can be strangers still.
 */
export async function verifyArchive(store: ArchiveStore, options: VerifyOptions): Promise<Verification> {
  const memory: Memory = { sound: new Map(), strangers: undefined };
  for (let looks = 1; ; looks++) {
    const { verification, log, mayPass } = await look(store, options, memory);
    if (verification.isValid || log === undefined || looks === LOOKS_MAX) return verification;
    if (!(await isSameLog(store, log))) continue;
    if (!mayPass || options.sleep === undefined) return verification;
    await options.sleep(LOOK_AGAIN_MS, options.signal ?? NEVER);
  }
}

const LOOKS_MAX = 10;
const LOOK_AGAIN_MS = 1000;
const NEVER = new AbortController().signal;

/** Kept from one look to the next. */
interface Memory {
  /** Parts without findings, by the hashes of their files; undefined where an earlier verification has checked it. */
  readonly sound: Map<string, PartResult | undefined>;
  strangers: readonly string[] | undefined;
}

interface Look {
  readonly verification: Verification;
  readonly log: CheckedLog | undefined;
  /** Whether something was found that a change of the archive leaves for a moment after its checkpoint. */
  readonly mayPass: boolean;
}

async function look(store: ArchiveStore, options: VerifyOptions, memory: Memory): Promise<Look> {
  const findings = createFindings(options.disabled);
  const { key, since, witnesses = [] } = options;
  const log = await verifyLog(store, { key, since, witnesses }, findings);
  const parts = currentParts(log?.leaves ?? []);
  const total = await checkParts(store, parts, log, options, memory, findings);
  let strangers: Strangers | undefined;
  if (log !== undefined) {
    await checkPolicy(store, log.leaves, findings);
    await checkTexts(store, log.leaves, findings);
    strangers = await checkStrangers(store, log, parts, memory.strangers, options.nowMs, findings);
    memory.strangers = strangers.paths;
    checkAge(log, options, findings);
  }
  const newest = log?.leaves.at(-1);
  const verification: Verification = {
    isValid: findings.list.length === 0,
    findings: findings.list,
    findingsLeftOut: findings.leftOut + total.findingsLeftOut,
    closing: strangers?.closing.length
      ? { sinceMs: log!.closing!.timeMs, paths: strangers.closing }
      : undefined,
    locked: strangers?.locked ?? [],
    origin: log?.checkpoint.origin,
    size: log?.checkpoint.size ?? 0,
    root: log?.checkpoint.root.toString("hex"),
    days: { valid: [...total.days.values()].filter(Boolean).length, total: total.days.size },
    parts: { checked: total.checked, total: parts.length },
    lines: total.lines,
    events: total.events,
    rawBytes: total.rawBytes,
    gaps: total.gaps,
    differing: total.differing,
    newestMs: newest === undefined ? undefined : Date.parse(newest.time),
    witnessedMs: log?.cosignatures.cosigned.map(({ atMs }) => atMs).toSorted((a, b) => b - a)[0],
    unwitnessed: log?.cosignatures.lacking ?? [],
    endedWitnesses: log?.endedWitnesses ?? [],
    isPinned: key !== undefined,
  };
  const mayPass =
    strangers?.isRemoving === true ||
    findings.list.some(({ check }) => check === "policy.json" || check === "keys.txt");
  return { verification, log, mayPass };
}

/** The note is read first: it goes after the checkpoint has changed, so a closing that ends between the two reads is seen. */
async function isSameLog(store: ArchiveStore, { checkpoint, closing }: CheckedLog): Promise<boolean> {
  const note = await store.read(CLOSING_FILE);
  const newest = await store.read("log/checkpoint");
  const isSameNote = closing === undefined ? note === undefined : note?.equals(closing.bytes) === true;
  return newest?.equals(checkpoint.bytes) === true && isSameNote;
}

interface Totals {
  readonly days: ReadonlyMap<string, boolean>;
  readonly events: number;
  readonly rawBytes: number;
  readonly checked: number;
  readonly lines: number;
  readonly gaps: readonly GapInDay[];
  readonly differing: readonly DifferingDay[];
  readonly findingsLeftOut: number;
}

/** Several parts are checked at a time; findings and `onPart` come in the order of the log. */
async function checkParts(
  store: ArchiveStore,
  parts: readonly CurrentPart[],
  log: CheckedLog | undefined,
  options: VerifyOptions,
  { sound }: Memory,
  findings: Findings,
): Promise<Totals> {
  const wanted = parts.filter(({ leaf }) => isInside(leaf.day, options));
  // A quick check reads little, and one part needs no threads.
  const checkers = createCheckers(store, options.quick || wanted.length < 2 ? 1 : undefined);
  const days = new Map<string, boolean>();
  const gaps: GapInDay[] = [];
  const differing: DifferingDay[] = [];
  let [events, rawBytes, checked, lines, findingsLeftOut] = [0, 0, 0, 0, 0];
  const started: Promise<PartResult | undefined>[] = [];
  const start = (part: CurrentPart | undefined) => {
    if (part === undefined) return;
    const result = sound.has(nameOf(part))
      ? Promise.resolve(sound.get(nameOf(part)))
      : checkOne(checkers, part, log!, options);
    // It is awaited in its turn, which may be after it failed.
    result.catch(() => {});
    started.push(result);
  };
  try {
    for (let at = 0; at < checkers.width; at++) start(wanted[at]);
    for (const [at, part] of wanted.entries()) {
      const { leaf, files } = part;
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
        differing.push(...result.differing);
      }
      const isValid = result === undefined || result.findings.length === 0;
      days.set(leaf.day, (days.get(leaf.day) ?? true) && isValid);
      if (isValid && sound.has(nameOf(part))) continue;
      if (isValid) sound.set(nameOf(part), result);
      options.onPart?.(leaf.index, isValid, { ...(files ?? leaf), index: leaf.index });
    }
  } finally {
    await checkers.close();
  }
  return { days, events, rawBytes, checked, lines, gaps, differing, findingsLeftOut };
}

const nameOf = ({ leaf, files }: CurrentPart) =>
  `${leaf.index} ${files?.manifest_sha256} ${files?.data_sha256}`;

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
