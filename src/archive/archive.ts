import { hash } from "node:crypto";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { ArchiveState } from "../core/archive.ts";
import type { Clock } from "../core/clock.ts";
import { DecisionNeededError } from "../core/errors.ts";
import type { Step } from "../core/step.ts";
import { type CloseSettings, createCloseStep } from "./close/close.ts";
import { type LogLeaf, parseLeaf } from "./log/leaf.ts";
import type { Signer, Verifier } from "./log/note.ts";
import { checkKey, signersOf } from "./log/signers.ts";
import { witnessesIn } from "./log/witnesses.ts";
import { createLogWriter, type LogSettings, type LogWriter, type NewLeaf } from "./log/writer.ts";
import type { ArchiveStore } from "./store/store.ts";
import { keysText } from "./verify/log-files.ts";

/** An archive that this process writes. Opening it writes its first entries: its key and its policy. */
export interface Archive {
  readonly log: LogWriter;
  readonly closeStep: Step;
  leaves(): readonly LogLeaf[];
}

export interface ArchiveOptions extends Omit<CloseSettings, "workFolder"> {
  readonly origin: string;
  readonly signer: Signer;
  /** The key before, while a rotation is under way (A20). */
  readonly previousSigner?: Signer | undefined;
  readonly witnesses?: readonly Verifier[] | undefined;
  readonly cosign?: LogSettings["cosign"] | undefined;
  /** The text of `policy.json`. */
  readonly policy: string;
  /** Where parts are built when the store has no disk of its own. */
  readonly workFolder: string;
}

export async function openArchive(
  state: ArchiveState,
  store: ArchiveStore,
  clock: Clock,
  options: ArchiveOptions,
  signal: AbortSignal,
): Promise<Archive> {
  const { origin, signer, previousSigner, witnesses = [], policy } = options;
  const workFolder = store.workFolder ?? options.workFolder;
  mkdirSync(workFolder, { recursive: true, mode: 0o700 });
  const leaves = () => state.entries().map((entry, index) => parseLeaf(entry, origin, index));
  const log = createLogWriter(state, store, clock, {
    origin,
    signers: (entries) => signersOf(entries, signer, previousSigner),
    cosign: options.cosign ?? (async () => []),
  });
  checkOrigin(state, origin);
  await log.recover(signal);
  await log.askWitnesses(signal);
  for (;;) {
    const missing = missingLeaves(leaves(), options, hash("sha256", policy, "hex"), witnesses);
    if (missing.length === 0) break;
    await log.append(missing, signal);
  }
  await restoreTexts(store, leaves(), policy);
  removeLeftovers(state, workFolder);
  const closeStep = createCloseStep(state, store, log, clock, { ...options, workFolder });
  return { log, closeStep, leaves };
}

function checkOrigin(state: ArchiveState, origin: string): void {
  const first = state.entries()[0]?.toString();
  if (first === undefined || first.includes(`"origin":${JSON.stringify(origin)}`)) return;
  throw new DecisionNeededError(`The archive of this state has another origin than "${origin}".`, [
    "set `origin` back to what it was",
    "give the new archive another name and an empty place",
  ]);
}

/** The entries that the log needs before days can be closed: key, witnesses, policy. */
function missingLeaves(
  leaves: readonly LogLeaf[],
  options: ArchiveOptions,
  policySha256: string,
  witnesses: readonly Verifier[],
): NewLeaf[] {
  const missing: NewLeaf[] = [];
  const keys = leaves.filter((leaf) => leaf.kind === "key").map(({ key }) => key);
  const { text } = options.signer.verifier;
  if (keys.at(-1) !== text) {
    checkKey(keys, options.signer, options.previousSigner);
    const previous = keys.at(-1) ?? null;
    missing.push({ body: { kind: "key", key: text, previous } });
    // A rotation has a checkpoint of its own, with both signatures.
    if (previous !== null) return missing;
  }
  const asked = witnessesIn(leaves).flatMap(({ key, isAsked }) => (isAsked ? [key] : []));
  const wanted = witnesses.map((witness) => witness.text);
  for (const key of wanted) if (!asked.includes(key)) missing.push({ body: { kind: "witness", key } });
  // Signed, so that nobody can hide a witness that refused by taking it out of the config.
  for (const key of asked) if (!wanted.includes(key)) missing.push({ body: { kind: "witness_end", key } });
  const policy = leaves.findLast((leaf) => leaf.kind === "policy");
  if (policy?.policy_sha256 !== policySha256)
    missing.push({ body: { kind: "policy", policy_sha256: policySha256 } });
  return missing;
}

async function restoreTexts(store: ArchiveStore, leaves: readonly LogLeaf[], policy: string): Promise<void> {
  const keys = keysText(leaves);
  if ((await store.read("keys.txt"))?.toString() !== keys) await store.replace("keys.txt", Buffer.from(keys));
  if ((await store.read("policy.json"))?.toString() !== policy)
    await store.replace("policy.json", Buffer.from(policy));
}

/** Files of plans that have ended, or that a crash left half written. */
function removeLeftovers(state: ArchiveState, folder: string): void {
  const needed = new Set(
    state
      .plans()
      .flatMap(({ id, built }) => (built === undefined ? [] : [`plan-${id}.zst`, `plan-${id}.jsonl`])),
  );
  for (const file of readdirSync(folder)) if (!needed.has(file)) rmSync(join(folder, file), { force: true });
}
