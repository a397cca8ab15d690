import type { ArchiveState } from "../core/archive.ts";
import type { Clock } from "../core/clock.ts";
import { DecisionNeededError, UsageError } from "../core/errors.ts";
import { type Archive, openArchive } from "./archive.ts";
import type { CountEvents } from "./close/count-days.ts";
import { type ArchiveConfig, classOf, policyText } from "./config.ts";
import { NoteError, parseSigner, parseVerifier, SIGNATURE, type Signer, withName } from "./log/note.ts";
import { keepOf } from "./retention.ts";
import { openDirectory } from "./store/directory.ts";
import { openS3 } from "./store/s3.ts";
import type { ArchiveStore } from "./store/store.ts";
import { createWitnessClient } from "./witness/client.ts";

export async function openStore(store: ArchiveConfig["store"], clock: Clock): Promise<ArchiveStore> {
  return "directory" in store ? openDirectory(store.directory) : openS3(store.s3, clock);
}

export function signerOf(config: Pick<ArchiveConfig, "origin">, text: string): Signer {
  try {
    const signer = parseSigner(text);
    const { name, type } = signer.verifier;
    if (type !== SIGNATURE) throw new NoteError("it is the key of a witness.");
    if (name === config.origin) return signer;
    if (isShardOf(config.origin, name)) return withName(signer, config.origin);
    throw new NoteError(`it is the key of "${name}".`);
  } catch (error) {
    throw new UsageError(
      `The signing key of the archive "${config.origin}" cannot be used: ${(error as Error).message} Name the file that "tidemark archive keys new" made for this origin. For a new archive, make one: tidemark archive keys new archive.key --origin ${config.origin}`,
    );
  }
}

/** All shards, and all lanes of a cluster, sign with one key, each under the name of its own log. */
function isShardOf(origin: string, name: string): boolean {
  return origin.startsWith(`${name}/`) && /^(shard-\d+-of-\d+|lane-\d+)$/.test(origin.slice(name.length + 1));
}

/** Called with the witness that did not answer, or with none when all did. */
export type OnWitnesses = (away: readonly { readonly name: string; readonly reason: string }[]) => void;

/** The archive of a config, ready to close days. */
export async function openConfigured(
  config: ArchiveConfig,
  state: ArchiveState,
  store: ArchiveStore,
  clock: Clock,
  workFolder: string,
  onWitnesses: OnWitnesses,
  count: CountEvents,
  signal: AbortSignal,
): Promise<Archive> {
  checkLock(config);
  const witnesses = config.witnesses.map(({ url, key }) => createWitnessClient(url, parseVerifier(key)));
  return openArchive(
    state,
    store,
    clock,
    {
      origin: config.origin,
      signer: signerOf(config, config.key.reveal()),
      previousSigner: config.previousKey && signerOf(config, config.previousKey.reveal()),
      witnesses: witnesses.map(({ verifier }) => verifier),
      policy: policyText(config),
      settleMs: config.settle,
      count,
      countsPerDay: config.counts,
      classOf: ({ organization, accounts }) => classOf(config, organization, accounts),
      workFolder,
      async cosign(checkpoint, entries, stop) {
        const answers = await Promise.allSettled(
          witnesses.map((witness) => witness.cosign(checkpoint, entries, stop)),
        );
        stop.throwIfAborted();
        for (const answer of answers)
          if (answer.status === "rejected" && answer.reason instanceof DecisionNeededError)
            throw answer.reason;
        onWitnesses(
          answers.flatMap((answer, at) =>
            answer.status === "rejected"
              ? [
                  {
                    name: witnesses[at]!.verifier.name,
                    reason: String(answer.reason?.message ?? answer.reason),
                  },
                ]
              : [],
          ),
        );
        return answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
      },
    },
    signal,
  );
}

/** A file that is locked longer than it is kept could not be pruned in time (A24). */
export function checkLock(config: ArchiveConfig): void {
  const lock = "s3" in config.store ? config.store.s3.objectLock : undefined;
  const keeps = [config.keep, ...config.classes.map(({ keep }) => keep)].map((text) => keepOf(text)!);
  const shortest = Math.min(...keeps.map(({ years, days }) => years * 365 + days));
  if (lock === undefined || lock.days <= shortest) return;
  throw new UsageError(
    `The Object Lock of the archive "${config.origin}" (${lock.days} days) exceeds its shortest \`keep\` (${shortest} days): lower objectLock.days, or keep longer.`,
  );
}
