import type { ArchiveConfig } from "../../archive/config.ts";
import { unknownClasses, unknownClassText } from "../../archive/deletion/past-retention.ts";
import { olderState } from "../../archive/log/ahead.ts";
import {
  checkSigned,
  cosignedAtMs,
  parseCheckpoint,
  type SignedCheckpoint,
} from "../../archive/log/checkpoint.ts";
import { currentParts } from "../../archive/log/current-parts.ts";
import { parseLeaf } from "../../archive/log/leaf.ts";
import { parseVerifier } from "../../archive/log/note.ts";
import { checkKey, keyNameOf, keysIn, signersOf } from "../../archive/log/signers.ts";
import { ownPart } from "../../archive/log/writer.ts";
import { checkLock, openStore, signerOf } from "../../archive/open.ts";
import { createWitnessClient } from "../../archive/witness/client.ts";
import { archiveOfLane } from "../../config/cluster.ts";
import type { Config } from "../../config/schema.ts";
import { systemClock } from "../../core/clock.ts";
import { DecisionNeededError, explain, explainWithChoices } from "../../core/errors.ts";
import { archiveLogIn } from "../../journal/archive/state.ts";
import { openStateForReading } from "../../journal/database.ts";
import { archiveConfigs } from "../archives.ts";
import type { CheckFinding } from "./finding.ts";
import { checkLanes, type Said } from "./lanes.ts";
import { hasState } from "./state.ts";

/** Looks at the key and the place of every archive; writes nothing. In a cluster each of its `lanes` has a place. */
export async function* checkArchives(
  config: Config,
  lanes: number | undefined,
  signal: AbortSignal,
): AsyncGenerator<CheckFinding> {
  for (const own of archiveConfigs(config)) {
    const subject = `archive ${own.name}`;
    if (config.cluster === undefined)
      for await (const said of checkArchive(own, entriesInState(config, own.name), signal))
        yield { subject, ...said };
    else if (lanes === undefined)
      yield { subject, ok: true, warning: true, message: "not looked at: the lanes are not known" };
    else
      yield* checkLanes(subject, lanes, (lane) => checkArchive(archiveOfLane(own, lane), undefined, signal));
    if (own.witnesses.length === 0)
      yield {
        subject,
        ok: true,
        warning: true,
        message:
          "no witness is named: only checkpoints that you keep elsewhere show a rewritten archive (docs/archive.md)",
      };
  }
}

/** `known`: the entries of its log in the state; undefined in a cluster, where they are not on this machine. */
async function* checkArchive(
  own: ArchiveConfig,
  known: readonly Buffer[] | undefined,
  signal: AbortSignal,
): AsyncGenerator<Said> {
  try {
    checkLock(own);
    const signer = signerOf(own, own.key.reveal());
    const previous = own.previousKey && signerOf(own, own.previousKey.reveal());
    const verifiers = [signer, ...(previous ? [previous] : [])].map(({ verifier }) => verifier);
    const { place, bytes } = await readNewest(own);
    if (bytes === undefined) {
      yield { ok: true, message: "its place holds no archive; the first run begins one there" };
      return;
    }
    const checkpoint = parseCheckpoint(bytes);
    if (known !== undefined && checkpoint.size > known.length)
      throw olderState(place, checkpoint.size, known.length);
    // The next start signs what a crash left unsigned.
    if (known !== undefined && known.length > checkpoint.size) signersOf(known, signer, previous);
    const keys = keysIn(known ?? []);
    // The checkpoint of a change is signed with the old key too, so its signatures do not show which one is newer.
    checkKey(keys, signer, previous);
    checkSigned(checkpoint, own.origin, verifiers);
    const { text } = signer.verifier;
    const isCurrent = keys.length === 0 || keys.at(-1) === text;
    const key = isCurrent ? "the key of the config" : "`previousKey`";
    const change = isCurrent ? "" : `; the next start changes the key to ${keyNameOf(text)}`;
    const inKafka =
      known === undefined ? "; whether the lane knows them is seen when a machine opens the lane" : "";
    yield { ok: true, message: `${checkpoint.size} log entries, signed with ${key}${change}${inKafka}` };
    const leaves = (known ?? []).map((entry, index) => parseLeaf(entry, own.origin, index));
    const classes = unknownClasses(own, currentParts(leaves));
    if (classes.length > 0) yield { ok: true, warning: true, message: unknownClassText(classes) };
    yield* checkWitnesses(own, checkpoint, known, signal);
  } catch (error) {
    yield { ok: false, message: explainWithChoices(error) };
  }
}

/** Asks each witness about the newest checkpoint, as the start does: it may know a longer or another history. */
async function* checkWitnesses(
  { witnesses, origin }: ArchiveConfig,
  checkpoint: SignedCheckpoint,
  entries: readonly Buffer[] | undefined,
  signal: AbortSignal,
): AsyncGenerator<Said> {
  for (const { url, key } of witnesses) {
    const verifier = parseVerifier(key);
    const isCosigned = cosignedAtMs(checkpoint.note, verifier) !== undefined;
    const lacking = `the newest checkpoint lacks the cosignature of the witness ${verifier.name}`;
    // In a cluster the entries are not on this machine.
    if (entries === undefined) {
      if (!isCosigned) yield { ok: true, warning: true, message: lacking };
      continue;
    }
    try {
      const own = parseCheckpoint(ownPart(String(checkpoint.bytes), origin));
      await createWitnessClient(url, verifier).cosign(own, entries.slice(0, own.size), signal);
      const known = `the witness ${verifier.name} knows this history`;
      if (isCosigned) yield { ok: true, message: known };
      else yield { ok: true, warning: true, message: `${lacking}; ${known}, and cosigns the next one` };
    } catch (error) {
      if (error instanceof DecisionNeededError) throw error;
      const said = `the witness ${verifier.name} could not be asked: ${explain(error)}`;
      yield { ok: true, warning: true, message: isCosigned ? said : `${lacking}; ${said}` };
    }
  }
}

async function readNewest({ store }: ArchiveConfig): Promise<{ place: string; bytes: Buffer | undefined }> {
  const opened = await openStore(store, systemClock);
  const bytes = await opened.read("log/checkpoint").finally(() => opened.close());
  return { place: opened.place, bytes };
}

/** None before the first run: an archive that is there already would stop that run. */
function entriesInState(config: Config, archive: string): readonly Buffer[] {
  if (!hasState(config)) return [];
  const db = openStateForReading(config.state);
  try {
    return archiveLogIn(db, archive);
  } finally {
    db.close();
  }
}
