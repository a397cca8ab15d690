import {
  closeSync,
  existsSync,
  fsyncSync,
  lstatSync,
  openSync,
  readFileSync,
  rmSync,
  type Stats,
  writeSync,
} from "node:fs";
import { userInfo } from "node:os";
import { dirname } from "node:path";
import type { Command } from "commander";
import { openKey, sealKey } from "../archive/log/key-backup.ts";
import { COSIGNATURE, newSignerText, parseSigner, type Signer, withName } from "../archive/log/note.ts";
import { keysIn } from "../archive/log/signers.ts";
import { signerOf } from "../archive/open.ts";
import { loadConfig } from "../config/load.ts";
import type { Config } from "../config/schema.ts";
import { explainWithChoices, UsageError } from "../core/errors.ts";
import { secretOf } from "../core/secret.ts";
import { archiveLogIn } from "../journal/archive/state.ts";
import { openStateForReading } from "../journal/database.ts";
import { isLocked } from "../journal/lock.ts";
import { type ArchiveFlags, archiveOf } from "./archive-store.ts";
import { change } from "./change.ts";
import type { Io } from "./io.ts";
import { withConfig } from "./options.ts";

export function registerKeys(archive: Command, io: Io): void {
  const keys = archive.command("keys").summary("make, show, rotate and back up signing keys");
  registerNew(keys, io);
  registerRotate(keys, io);
  registerBackup(keys, io);
}

function registerNew(keys: Command, io: Io): void {
  keys
    .command("new")
    .summary("make a signing key")
    .description(
      "Writes a new signing key into a file that only its owner can read, and prints the public key. Keep a copy of the file offline: without it the archive cannot be continued.",
    )
    .argument("<file>", "where the key goes; must not be there yet")
    .requiredOption("--origin <origin>", "the archive's origin, as in the config; for a witness its name")
    .option("--witness", "a key for `tidemark witness`")
    .addHelpText(
      "after",
      "\nExample:\n  $ tidemark archive keys new archive.key --origin example.com/audit-archive",
    )
    .action((file: string, flags: { origin: string; witness?: boolean }) => {
      const text = newSignerText(flags.origin, flags.witness ? COSIGNATURE : undefined);
      writeKey(file, text);
      io.stdout.write(`${parseSigner(text).verifier.text}\n`);
    });
  keys
    .command("show")
    .summary("print the public key of a signing key")
    .argument("<file>", "the signing key")
    .option(
      "--origin <origin>",
      "the public key of this log; shards and lanes have one each: ORIGIN/shard-0-of-3, ORIGIN/lane-3",
    )
    .addHelpText("after", "\nExample:\n  $ tidemark archive keys show archive.key")
    .action((file: string, { origin }: { origin?: string }) => {
      const signer = readSigner(file);
      const { verifier } = origin === undefined ? signer : withName(signer, origin);
      io.stdout.write(`${verifier.text}\n`);
    });
}

function registerRotate(keys: Command, io: Io): void {
  withConfig(keys.command("rotate"), "tidemark archive keys rotate archive-2027.key")
    .summary("change the signing key; the old key confirms the new one")
    .description(
      "Makes a new signing key and writes it into the log, in a checkpoint that both keys sign. Stop the running process first. Afterwards name the new file as `key` in the config. Everybody who pinned the old key can still verify.",
    )
    .argument(
      "<file>",
      "where the new key goes; must not be there yet, unless a rotation to it was interrupted",
    )
    .option("--archive <name>", "the archive, where the config has more than one")
    .action((file: string, flags: ArchiveFlags) => rotate(file, flags, io));
}

async function rotate(file: string, flags: ArchiveFlags, io: Io): Promise<void> {
  const { config } = loadConfig(flags.config, io.env);
  const own = archiveOf(flags, io);
  if (config.cluster !== undefined)
    throw new UsageError(
      "In a cluster every lane signs the change of its key: make a key with `tidemark archive keys new`, name it as `key` and the old one as `previousKey` in the config of every machine, and restart the machines one after the other.",
    );
  if (isLocked(config.state)) throw isRunning();
  const kept = keyOfInterrupted(file, own, config.state);
  const text = kept ?? newKey(file, own);
  const { verifier } = signerOf(own, text);
  const isNamed = () => keysInState(config.state, own.name).at(-1) === verifier.text;
  const sinks = config.sinks.map((sink) =>
    sink.name === own.name ? { ...sink, key: secretOf(text), previousKey: own.key } : sink,
  );
  try {
    await change(io, { ...config, sinks } as unknown as Config, "archive", {
      archive: own.name,
      operation: { kind: "keys" },
    });
    // A process that was started meanwhile has answered, with its own key.
    if (!isNamed()) throw isRunning();
  } catch (error) {
    if (isNamed()) throw new Error(`${explainWithChoices(error)} ${keepText(file)}`, { cause: error });
    if (kept === undefined) rmSync(file, { force: true });
    throw error;
  }
  io.stdout.write(
    `Now name ${file} as \`key\` in the config, remove \`previousKey\`, and keep a backup of the new key elsewhere.\n`,
  );
}

function isRunning(): UsageError {
  return new UsageError(
    "A process is running with this state file: stop it, rotate, change `key` in the config, and start it again.",
  );
}

type OwnArchive = ReturnType<typeof archiveOf>;

function newKey(file: string, { key }: OwnArchive): string {
  // The name of the key before: it is that of all shards.
  const text = newSignerText(parseSigner(key.reveal()).verifier.name);
  // On disk before the log names it: a key that is lost could not continue the archive.
  writeKey(file, text);
  return text;
}

/**
 * The key in the file, where a rotation to it was interrupted: before the log named it, or after. It is used and never
 * replaced, for it may be needed elsewhere: shards have one key. Nobody else can have made it, or read it.
 */
function keyOfInterrupted(file: string, own: OwnArchive, stateFile: string): string | undefined {
  const found = lstatSync(file, { throwIfNoEntry: false });
  if (found === undefined) return undefined;
  if (!isPrivate(found)) throw taken(file, "it is not a file that only this user can read");
  if (found.size === 0) {
    // The command was killed before it wrote the key.
    rmSync(file);
    return undefined;
  }
  const text = readFileSync(file, "utf8").trim();
  const key = publicKeyOf(text, own);
  if (key === undefined) throw taken(file, `it holds no key for the origin "${own.origin}"`);
  const named = keysInState(stateFile, own.name);
  const current = signerOf(own, own.key.reveal()).verifier.text;
  if (key === current) throw taken(file, "it is the `key` of the config");
  if (named.at(-1) !== key && named.includes(key)) throw taken(file, "its key has signed this log before");
  return text;
}

function isPrivate(found: Stats): boolean {
  const { uid } = userInfo();
  return found.isFile() && (found.mode & 0o077) === 0 && (uid < 0 || found.uid === uid);
}

function publicKeyOf(text: string, own: OwnArchive): string | undefined {
  try {
    return signerOf(own, text).verifier.text;
  } catch {
    return undefined;
  }
}

function taken(file: string, why: string): UsageError {
  return new UsageError(
    `${file} is there already, and ${why}. A key is never overwritten: name another file. Nothing was changed.`,
  );
}

/** Entries are in the state before they are in the store. */
function keysInState(stateFile: string, archive: string): readonly string[] {
  if (!existsSync(stateFile)) return [];
  const db = openStateForReading(stateFile);
  try {
    return keysIn(archiveLogIn(db, archive));
  } finally {
    db.close();
  }
}

function keepText(file: string): string {
  return `The log has the entry with the new key already, so keep ${file}. The same command completes the change; so does the next start, with this file as \`key\` and the old one as \`previousKey\` in the config.`;
}

interface PassphraseFlags {
  readonly passphraseEnv: string;
}

function registerBackup(keys: Command, io: Io): void {
  const passphrase = ({ passphraseEnv }: PassphraseFlags) => {
    const text = io.env[passphraseEnv] ?? "";
    if (text.length >= 12) return text;
    throw new UsageError(`Set ${passphraseEnv} to a passphrase of at least 12 characters.`);
  };
  keys
    .command("backup")
    .summary("write an encrypted copy of a signing key")
    .description(
      "Encrypts the key with a passphrase, reads the copy back, and prints the public key. Keep the copy and the passphrase in two places away from this machine.",
    )
    .argument("<key>", "the signing key")
    .argument("<backup>", "where the copy goes; must not be there yet")
    .requiredOption("--passphrase-env <variable>", "the environment variable with the passphrase")
    .addHelpText(
      "after",
      "\nExample:\n  $ tidemark archive keys backup archive.key archive.key.backup --passphrase-env PASSPHRASE",
    )
    .action((key: string, backup: string, flags: PassphraseFlags) => {
      readSigner(key);
      const text = readText(key, "signing key").trim();
      writeKey(backup, sealKey(text, passphrase(flags)));
      if (openKey(readFileSync(backup, "utf8"), passphrase(flags)) !== text)
        throw new Error(`${backup} does not give the key back: do not rely on it.`);
      io.stdout.write(`${parseSigner(text).verifier.text}\n`);
    });
  keys
    .command("restore")
    .summary("get a signing key back from its encrypted copy")
    .argument("<backup>", "the copy")
    .argument("<key>", "where the key goes; must not be there yet")
    .requiredOption("--passphrase-env <variable>", "the environment variable with the passphrase")
    .addHelpText(
      "after",
      "\nExample:\n  $ tidemark archive keys restore archive.key.backup archive.key --passphrase-env PASSPHRASE",
    )
    .action((backup: string, key: string, flags: PassphraseFlags) => {
      const text = openBackup(readText(backup, "backup"), passphrase(flags));
      writeKey(key, text);
      io.stdout.write(`${parseSigner(text).verifier.text}\n`);
    });
}

function readText(file: string, kind: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new UsageError(`The ${kind} cannot be read: ${(error as Error).message}. Name its file.`);
  }
}

export function readSigner(file: string): Signer {
  const text = readText(file, "signing key");
  try {
    return parseSigner(text);
  } catch (error) {
    throw new UsageError(
      `${file} cannot be used: ${(error as Error).message} Name the file that \`tidemark archive keys new\` made.`,
    );
  }
}

function openBackup(text: string, passphrase: string): string {
  try {
    return openKey(text, passphrase);
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

/** Durable, with its folder: what is signed with it next must not outlive it. */
function writeKey(file: string, text: string): void {
  try {
    synced(openSync(file, "wx", 0o600), (handle) => writeSync(handle, `${text}\n`));
    synced(openSync(dirname(file), "r"));
  } catch (error) {
    throw new UsageError(`${file} was not written: ${(error as Error).message}. A key is never overwritten.`);
  }
}

function synced(handle: number, write: (handle: number) => void = () => {}): void {
  try {
    write(handle);
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
