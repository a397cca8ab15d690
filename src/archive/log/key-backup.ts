import { createCipheriv, createDecipheriv, randomBytes, scryptSync } from "node:crypto";
import { NoteError, parseSigner } from "./note.ts";

/*
 * A copy of a signing key that is safe to keep elsewhere: AES-256-GCM under a key that scrypt makes from a passphrase.
 *
 *   TIDEMARK+KEY+BACKUP+1+ base64(salt 16 || nonce 12 || tag 16 || ciphertext)
 */
const PREFIX = "TIDEMARK+KEY+BACKUP+1+";
const COST = { N: 2 ** 17, r: 8, p: 1, maxmem: 256 * 2 ** 20 };

export function sealKey(text: string, passphrase: string): string {
  parseSigner(text);
  const [salt, nonce] = [randomBytes(16), randomBytes(12)];
  const cipher = createCipheriv("aes-256-gcm", scryptSync(passphrase, salt, 32, COST), nonce);
  const sealed = Buffer.concat([cipher.update(text.trim()), cipher.final()]);
  return PREFIX + Buffer.concat([salt, nonce, cipher.getAuthTag(), sealed]).toString("base64");
}

/** The signing key; throws when the passphrase is wrong or the text is damaged. */
export function openKey(backup: string, passphrase: string): string {
  const text = backup.trim();
  const bytes = Buffer.from(text.slice(PREFIX.length), "base64");
  if (!text.startsWith(PREFIX) || bytes.length < 45)
    throw new NoteError(`This is no backup of a signing key: it begins with ${PREFIX}.`);
  const key = scryptSync(passphrase, bytes.subarray(0, 16), 32, COST);
  const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(16, 28));
  decipher.setAuthTag(bytes.subarray(28, 44));
  try {
    const opened = Buffer.concat([decipher.update(bytes.subarray(44)), decipher.final()]).toString();
    parseSigner(opened);
    return opened;
  } catch {
    throw new NoteError("The passphrase is wrong, or the backup is damaged.");
  }
}
