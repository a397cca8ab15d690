import { sign, verify } from "node:crypto";
import {
  COSIGNATURE,
  isSignedBy,
  type Note,
  NoteError,
  parseNote,
  type Signer,
  signatureLine,
  signNote,
  type Verifier,
} from "./note.ts";
import { HASH_BYTES } from "./tree.ts";

/** The head of the log at one size (C2SP tlog-checkpoint v1.0.0): origin, size and root, as a signed note. */
export interface Checkpoint {
  readonly origin: string;
  readonly size: number;
  readonly root: Buffer;
}

export interface SignedCheckpoint extends Checkpoint {
  readonly note: Note;
  /** The note, byte for byte. */
  readonly bytes: Buffer;
}

function checkpointText({ origin, size, root }: Checkpoint): string {
  return `${origin}\n${size}\n${root.toString("base64")}\n`;
}

export function signCheckpoint(checkpoint: Checkpoint, signers: readonly Signer[]): string {
  return signNote(checkpointText(checkpoint), signers);
}

export function parseCheckpoint(bytes: Uint8Array): SignedCheckpoint {
  const note = parseNote(bytes);
  const [origin, size, root, ...rest] = note.text.slice(0, -1).split("\n");
  const hash = Buffer.from(root ?? "", "base64");
  const isWhole =
    origin !== "" && /^(0|[1-9]\d{0,15})$/.test(size ?? "") && Number.isSafeInteger(Number(size));
  if (!isWhole || hash.length !== HASH_BYTES || hash.toString("base64") !== root)
    throw new NoteError("The note is not a checkpoint: it needs an origin, a size and a root hash.");
  // Extension lines are allowed by the format and never written here; nothing checks them, so they are refused.
  if (rest.length > 0)
    throw new NoteError("The checkpoint has extension lines, which this archive never writes.");
  return { origin: origin!, size: Number(size), root: hash, note, bytes: Buffer.from(bytes) };
}

/** Throws unless the checkpoint is of this origin and signed by at least one of these keys. */
export function checkSigned(
  checkpoint: SignedCheckpoint,
  origin: string,
  verifiers: readonly Verifier[],
): void {
  if (checkpoint.origin !== origin)
    throw new NoteError(`The checkpoint is of the log "${checkpoint.origin}", not of "${origin}".`);
  const signing = verifiers.filter((verifier) => isSignedBy(checkpoint.note, verifier));
  if (signing.length === 0) throw new NoteError("The checkpoint has no signature of a known key.");
}

/** One line that says: at this time the witness saw this checkpoint as the newest, consistent with all before. */
export function cosign(checkpoint: SignedCheckpoint, signer: Signer, nowMs: number): string {
  const seconds = Math.floor(nowMs / 1000);
  const time = Buffer.alloc(8);
  time.writeBigUInt64BE(BigInt(seconds));
  const signature = sign(null, cosignedMessage(checkpoint.note.text, seconds), signer.privateKey);
  return signatureLine(signer.verifier, Buffer.concat([time, signature]));
}

/** When the witness cosigned, in milliseconds; undefined when it did not. A wrong cosignature throws. */
export function cosignedAtMs(note: Note, witness: Verifier): number | undefined {
  if (witness.type !== COSIGNATURE) throw new NoteError(`${witness.name} is not the key of a witness.`);
  let newest: number | undefined;
  for (const { name, id, bytes } of note.signatures) {
    if (name !== witness.name || id !== witness.id) continue;
    const seconds = bytes.length === 72 ? Number(bytes.readBigUInt64BE(0)) : Number.NaN;
    const isValid =
      Number.isSafeInteger(seconds) &&
      verify(null, cosignedMessage(note.text, seconds), witness.publicKey, bytes.subarray(8));
    if (!isValid) throw new NoteError(`The cosignature by ${name} does not verify.`);
    newest = Math.max(newest ?? 0, seconds * 1000);
  }
  return newest;
}

function cosignedMessage(text: string, seconds: number): Buffer {
  return Buffer.from(`cosignature/v1\ntime ${seconds}\n${text}`);
}
