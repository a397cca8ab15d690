import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  hash,
  type KeyObject,
  sign,
  verify,
} from "node:crypto";

/*
 * Signed notes (C2SP signed-note v1.0.0): a text, an empty line, and lines
 *
 *   — <key name> base64(key id || signature)
 *
 * A key id is the first four bytes of SHA-256(name || "\n" || type || public key). Type 1 is a plain Ed25519
 * signature, type 4 a timestamped cosignature of a checkpoint (C2SP tlog-cosignature v1.0.1).
 */

export const SIGNATURE = 1;
export const COSIGNATURE = 4;
type SignatureType = typeof SIGNATURE | typeof COSIGNATURE;

const NOTE_BYTES_MAX = 1_000_000;
const SIGNATURES_MAX = 100;

export interface Verifier {
  readonly name: string;
  readonly id: string;
  readonly type: SignatureType;
  readonly publicKey: KeyObject;
  /** As one line: `name+id+key`. */
  readonly text: string;
}

export interface Signer {
  readonly verifier: Verifier;
  readonly privateKey: KeyObject;
}

export interface NoteSignature {
  readonly name: string;
  readonly id: string;
  readonly bytes: Buffer;
  /** The signature line without its line break. */
  readonly line: string;
}

export interface Note {
  /** With its last line break. */
  readonly text: string;
  readonly signatures: readonly NoteSignature[];
}

export class NoteError extends Error {
  override readonly name = "NoteError";
}

export function signNote(text: string, signers: readonly Signer[]): string {
  if (!text.endsWith("\n") || hasControlCharacters(text))
    throw new NoteError("A note's text must be lines without control characters.");
  return `${text}\n${signers.map((signer) => `${signatureLine(signer.verifier, sign(null, Buffer.from(text), signer.privateKey))}\n`).join("")}`;
}

export function signatureLine(verifier: Verifier, signature: Uint8Array): string {
  return `— ${verifier.name} ${Buffer.concat([Buffer.from(verifier.id, "hex"), signature]).toString("base64")}`;
}

export function parseNote(bytes: Uint8Array): Note {
  if (bytes.length > NOTE_BYTES_MAX) throw new NoteError("The note is too long.");
  const all = Buffer.from(bytes).toString("utf8");
  if (!Buffer.from(all).equals(bytes) || hasControlCharacters(all))
    throw new NoteError("The note is not plain UTF-8 text.");
  const end = all.lastIndexOf("\n\n");
  if (end < 0 || !all.endsWith("\n")) throw new NoteError("The note has no signatures.");
  const lines = all.slice(end + 2, -1).split("\n");
  if (lines.length > SIGNATURES_MAX) throw new NoteError("The note has too many signatures.");
  return { text: all.slice(0, end + 1), signatures: lines.map(parseSignature) };
}

export function parseSignature(line: string): NoteSignature {
  const match = /^— ([^\s+]+) ([A-Za-z0-9+/]+={0,2})$/u.exec(line);
  const raw = Buffer.from(match?.[2] ?? "", "base64");
  if (!match || raw.length < 5 || raw.toString("base64") !== match[2])
    throw new NoteError("A signature line of the note is malformed.");
  return { name: match[1]!, id: raw.toString("hex", 0, 4), bytes: raw.subarray(4), line };
}

/**
 * Whether the note has a valid plain signature of this key. A signature that names the key and does not verify
 * makes the whole note malformed.
 */
export function isSignedBy(note: Note, verifier: Verifier): boolean {
  const own = note.signatures.filter(({ name, id }) => name === verifier.name && id === verifier.id);
  for (const { bytes } of own)
    if (!verify(null, Buffer.from(note.text), verifier.publicKey, bytes))
      throw new NoteError(`The note's signature by ${verifier.name}+${verifier.id} does not verify.`);
  return own.length > 0;
}

export function parseVerifier(text: string): Verifier {
  const match = /^([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+={0,2})$/u.exec(text.trim());
  const raw = Buffer.from(match?.[3] ?? "", "base64");
  if (!match || raw.length !== 33 || (raw[0] !== SIGNATURE && raw[0] !== COSIGNATURE))
    throw new NoteError("This is no Ed25519 verifier key: it looks like `name+0123abcd+AbCd…`.");
  const verifier = verifierOf(match[1]!, raw[0], raw.subarray(1));
  if (verifier.id !== match[2])
    throw new NoteError("The verifier key is damaged: its id does not match its key.");
  return verifier;
}

function verifierOf(name: string, type: SignatureType, publicKey: Uint8Array): Verifier {
  if (!/^[^\s+]+$/u.test(name) || hasControlCharacters(name))
    throw new NoteError("A key's name has no spaces and no plus sign.");
  const key = Buffer.concat([Buffer.from([type]), publicKey]);
  const id = hash("sha256", Buffer.concat([Buffer.from(`${name}\n`), key]), "buffer").toString("hex", 0, 4);
  const x = Buffer.from(publicKey).toString("base64url");
  return {
    name,
    id,
    type,
    publicKey: createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" }),
    text: `${name}+${id}+${key.toString("base64")}`,
  };
}

/** A new private key as one line, in the encoding of Go's note package: `PRIVATE+KEY+name+id+key`. */
export function newSignerText(name: string, type: SignatureType = SIGNATURE): string {
  const { privateKey } = generateKeyPairSync("ed25519");
  const { d, x } = privateKey.export({ format: "jwk" });
  const { id } = verifierOf(name, type, Buffer.from(x!, "base64url"));
  const key = Buffer.concat([Buffer.from([type]), Buffer.from(d!, "base64url")]);
  return `PRIVATE+KEY+${name}+${id}+${key.toString("base64")}`;
}

export function parseSigner(text: string): Signer {
  const match = /^PRIVATE\+KEY\+([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+={0,2})$/u.exec(text.trim());
  const raw = Buffer.from(match?.[3] ?? "", "base64");
  if (!match || raw.length !== 33 || (raw[0] !== SIGNATURE && raw[0] !== COSIGNATURE))
    throw new NoteError("This is no signing key: it is one line that begins with PRIVATE+KEY+.");
  const privateKey = createPrivateKey({
    key: Buffer.concat([PKCS8_ED25519, raw.subarray(1)]),
    format: "der",
    type: "pkcs8",
  });
  const { x } = createPublicKey(privateKey).export({ format: "jwk" });
  const verifier = verifierOf(match[1]!, raw[0], Buffer.from(x!, "base64url"));
  if (verifier.id !== match[2])
    throw new NoteError("The signing key is damaged: its id does not match its key.");
  return { verifier, privateKey };
}

/** The same key under another name: key ids depend on the name. */
export function withName({ verifier, privateKey }: Signer, name: string): Signer {
  const { x } = verifier.publicKey.export({ format: "jwk" });
  return { verifier: verifierOf(name, verifier.type, Buffer.from(x!, "base64url")), privateKey };
}

const PKCS8_ED25519 = Buffer.from("302e020100300506032b657004220420", "hex");

function hasControlCharacters(text: string): boolean {
  return /[\u0000-\u0009\u000b-\u001f]/.test(text);
}
