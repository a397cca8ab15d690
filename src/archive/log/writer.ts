import type { ArchiveHead, ArchiveState, ProposedEntry } from "../../core/archive.ts";
import type { Clock } from "../../core/clock.ts";
import { DecisionNeededError } from "../../core/errors.ts";
import { type ArchiveStore, ForeignFileError } from "../store/store.ts";
import { BEGIN_ANOTHER } from "./ahead.ts";
import { checkSigned, parseCheckpoint, type SignedCheckpoint, signCheckpoint } from "./checkpoint.ts";
import { CLOSING_FILE, signClosing } from "./closing.ts";
import { encodeLeaf, filesNamedBy, type LeafBody, parseLeaf } from "./leaf.ts";
import { LOCKED_FILE, type LockedFile, signLocked } from "./locked.ts";
import type { Signer } from "./note.ts";
import { createTiler } from "./tiles.ts";
import { leafHash, leavesOf, rootOf } from "./tree.ts";

/*
 * Appends to the log. Each step can be repeated after a crash, with the same bytes:
 *
 *   1. entries, with their times, are durable in the state (propose)
 *   2. `log/closing` names the new files, and tiles and entry bundles are created in the store
 *   3. the checkpoint is signed, cosigned by witnesses that answer, and durable in the state (setProposal); a witness
 *      that knows another history stops everything here
 *   4. `log/checkpoint.<size>` is created; other bytes there are a fork, and everything stops (A19)
 *   5. `log/leaves.jsonl` and `log/checkpoint` are replaced, and `log/closing` is removed
 *   6. the state confirms, and releases what the entries were about
 *
 * Before 2 the store's checkpoint must be the one that the state knows, or the proposed one. An older one of the same
 * history is replaced where only `log/checkpoint` is old.
 */

export interface LogWriter {
  readonly origin: string;
  /** Ends an append that a crash interrupted. */
  recover(signal: AbortSignal): Promise<void>;
  /** Asks the witnesses about the newest checkpoint: one that knows a longer or another history stops everything. */
  askWitnesses(signal: AbortSignal): Promise<void>;
  /** Names the files that are about to be written for the next entries. */
  announce(paths: readonly string[]): Promise<void>;
  /** Names the files that are no longer part of the archive, but locked by the store. */
  sayLocked(files: readonly LockedFile[]): Promise<void>;
  append(leaves: readonly NewLeaf[], signal: AbortSignal): Promise<void>;
}

export interface NewLeaf {
  readonly body: LeafBody;
  readonly plan?: number | undefined;
}

export interface LogSettings {
  readonly origin: string;
  /** The signers of the checkpoint over these entries: two for the one that introduces a key (A20). */
  signers(entries: readonly Buffer[]): readonly Signer[];
  /** Cosignature lines of the witnesses that answered. DecisionNeededError: one knows another history. */
  cosign(
    checkpoint: SignedCheckpoint,
    entries: readonly Buffer[],
    signal: AbortSignal,
  ): Promise<readonly string[]>;
}

export function createLogWriter(
  state: ArchiveState,
  store: ArchiveStore,
  clock: Clock,
  settings: LogSettings,
): LogWriter {
  const { origin } = settings;

  async function publish(signal: AbortSignal): Promise<void> {
    const entries = state.entries();
    const size = state.head()?.size ?? 0;
    const leaves = leavesOf(Buffer.concat(entries.map((entry) => leafHash(entry))));
    const tiler = createTiler(leaves, (index) => entries[index]!);
    tiler.grow(size);
    const tiles = tiler.grow(entries.length);
    await announce(entries, [
      ...entries.slice(size).flatMap((entry, at) => filesNamedBy(parseLeaf(entry, origin, size + at))),
      ...tiles.map(({ path }) => `log/${path}`),
      `log/checkpoint.${entries.length}`,
    ]);
    for (const { path, bytes } of tiles) {
      signal.throwIfAborted();
      await createOwn(`log/${path}`, bytes);
    }
    const root = rootOf(leaves);
    const checkpoint = state.proposal() ?? (await sign(entries, root, signal));
    const bytes = Buffer.from(checkpoint);
    await createOwn(`log/checkpoint.${entries.length}`, bytes);
    await point(entries, bytes);
    // Its time is over with the checkpoint, so it may stay where files cannot be removed.
    await store.remove(CLOSING_FILE).catch(() => {});
    await state.confirm({ size: entries.length, root: root.toString("hex"), checkpoint });
  }

  async function announce(entries: readonly Buffer[], paths: readonly string[]): Promise<void> {
    const size = state.head()?.size;
    // Before the first checkpoint there is nothing to verify.
    if (size === undefined) return;
    const closing = { origin, size, timeMs: clock.now(), paths };
    await store.replace(CLOSING_FILE, Buffer.from(signClosing(closing, settings.signers(entries))));
  }

  async function sign(entries: readonly Buffer[], root: Buffer, signal: AbortSignal): Promise<string> {
    const signed = signCheckpoint({ origin, size: entries.length, root }, settings.signers(entries));
    const lines = await settings.cosign(parseCheckpoint(Buffer.from(signed)), entries, signal);
    const checkpoint = signed + lines.map((line) => `${line}\n`).join("");
    await state.setProposal(checkpoint);
    return checkpoint;
  }

  async function createOwn(path: string, bytes: Uint8Array): Promise<void> {
    try {
      await store.create(path, { bytes });
    } catch (error) {
      if (error instanceof ForeignFileError) throw fork(store.place, path);
      throw error;
    }
  }

  /** The store's newest checkpoint must be what this state wrote last, or is about to write (A19). */
  async function checkHead(): Promise<void> {
    const known = state.head();
    const bytes = await store.read("log/checkpoint");
    if (bytes === undefined) {
      if (known !== undefined) throw lost(store.place, known.size);
      if (state.proposal() === undefined && state.entries().length === 0) await checkEmpty();
      return;
    }
    const text = bytes.toString();
    if (text === known?.checkpoint || text === state.proposal()) return;
    if (known !== undefined && (await isOnlyPointerOld(bytes, known))) {
      await point(state.entries().slice(0, known.size), Buffer.from(known.checkpoint));
      return;
    }
    throw differs(store.place, origin, settings.signers([]), bytes, known?.size ?? 0);
  }

  async function point(entries: readonly Buffer[], checkpoint: Buffer): Promise<void> {
    await store.replace("log/leaves.jsonl", Buffer.concat(entries.flatMap((entry) => [entry, LINE_BREAK])));
    await store.replace("log/checkpoint", checkpoint);
  }

  /**
   * A machine of a cluster that was suspended in step 5, and wakes up after another one has gone on, writes an older
   * checkpoint of the same history. The numbered checkpoints are never replaced and show that nothing else is old.
   */
  async function isOnlyPointerOld(bytes: Buffer, known: ArchiveHead): Promise<boolean> {
    const newest = await store.read(`log/checkpoint.${known.size}`);
    if (newest?.toString() !== known.checkpoint) return false;
    try {
      const found = parseCheckpoint(bytes);
      const hashes = state
        .entries()
        .slice(0, found.size)
        .map((entry) => leafHash(entry));
      return found.size < known.size && rootOf(leavesOf(Buffer.concat(hashes))).equals(found.root);
    } catch {
      return false;
    }
  }

  /** A new archive begins in an empty place. */
  async function checkEmpty(): Promise<void> {
    for (const prefix of ["log", "events", "manifests"])
      for await (const { path } of store.list(prefix)) throw notEmpty(store.place, path);
  }

  return {
    origin,
    async recover(signal) {
      await checkHead();
      if (state.entries().length > (state.head()?.size ?? 0)) await publish(signal);
    },
    async askWitnesses(signal) {
      const head = state.head();
      if (head === undefined) return;
      const entries = state.entries().slice(0, head.size);
      await settings.cosign(parseCheckpoint(ownPart(head.checkpoint, origin)), entries, signal);
    },
    announce: (paths) => announce([], paths),
    async sayLocked(files) {
      const found = await store.read(LOCKED_FILE);
      if (files.length === 0) {
        // It explains only files that are there, so it may stay where files cannot be removed.
        if (found !== undefined) await store.remove(LOCKED_FILE).catch(() => {});
        return;
      }
      const bytes = Buffer.from(signLocked({ origin, files }, settings.signers([])));
      if (found?.equals(bytes) !== true) await store.replace(LOCKED_FILE, bytes);
    },
    async append(leaves, signal) {
      await checkHead();
      const first = state.entries().length;
      if (first > (state.head()?.size ?? 0)) await publish(signal);
      const place = { origin, size: first + leaves.length, timeMs: clock.now() };
      const proposed = leaves.map(
        ({ body, plan }, at): ProposedEntry => ({
          entry: encodeLeaf({ ...place, index: first + at }, body),
          plan,
        }),
      );
      await state.propose(proposed);
      await publish(signal);
    },
  };
}

/** The checkpoint without the lines of witnesses. */
export function ownPart(checkpoint: string, origin: string): Buffer {
  const [text, lines = ""] = checkpoint.split("\n\n");
  const own = lines.split("\n").filter((line) => line.startsWith(`— ${origin} `));
  return Buffer.from(`${text}\n\n${own.map((line) => `${line}\n`).join("")}`);
}

const LINE_BREAK = Buffer.from("\n");

function fork(place: string, path: string): DecisionNeededError {
  return new DecisionNeededError(
    `${place}/${path} exists with other content: another process writes to this log, or this state is an older copy. Nothing was signed.`,
    [
      "stop the other process, and give each archive its own place and origin",
      "restore the newest state file",
    ],
  );
}

function lost(place: string, size: number): DecisionNeededError {
  return new DecisionNeededError(
    `${place} has no log/checkpoint, but this state has written ${size} log entries there. The place was emptied, or it is another one.`,
    ["correct the place in the config, or mount it", "restore the archive from a copy"],
  );
}

function notEmpty(place: string, path: string): DecisionNeededError {
  return new DecisionNeededError(
    `${place} is not empty (${path}), and this state has no archive yet. A second history under the same origin is never started.`,
    ["restore the state file that belongs to this archive", "name an empty place for a new archive"],
  );
}

function differs(
  place: string,
  origin: string,
  signers: readonly Signer[],
  bytes: Buffer,
  knownSize: number,
): DecisionNeededError {
  const choices = [
    "restore the newest state file",
    "stop the other process that writes there",
    BEGIN_ANOTHER,
  ];
  let found: SignedCheckpoint;
  try {
    found = parseCheckpoint(bytes);
    checkSigned(
      found,
      origin,
      signers.map(({ verifier }) => verifier),
    );
  } catch (error) {
    return new DecisionNeededError(
      `${place} holds another archive, or one that was signed with another key: ${(error as Error).message} Nothing was written.`,
      ["correct origin, key or place in the config", ...choices.slice(2)],
    );
  }
  const relation =
    found.size > knownSize ? "is ahead of" : found.size < knownSize ? "is behind" : "differs from";
  return new DecisionNeededError(
    `The log in ${place} (${found.size} entries) ${relation} this state (${knownSize} entries): the state is an older copy, the place was rolled back, or two processes write there. Nothing was signed.`,
    choices,
  );
}
