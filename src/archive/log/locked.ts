import { type Note, NoteError, parseNote, type Signer, signNote } from "./note.ts";

/*
 * `log/locked` names files that are no longer part of the archive, but that the store has locked (A24): `verify` can
 * tell them from foreign ones. It is a signed note:
 *
 *   tidemark/locked/v1
 *   <origin>
 *   <the end of the lock> <path>, one on each line
 *
 * It is written again whenever an order to remove such a file is recorded or carried out.
 */
export const LOCKED_FILE = "log/locked";
const LABEL = "tidemark/locked/v1";

export interface LockedFile {
  readonly path: string;
  readonly untilMs: number;
}

export interface Locked {
  readonly origin: string;
  readonly files: readonly LockedFile[];
}

export function signLocked({ origin, files }: Locked, signers: readonly Signer[]): string {
  const rows = files.map(({ path, untilMs }) => `${new Date(untilMs).toISOString()} ${path}`);
  return signNote(`${[LABEL, origin, ...rows].join("\n")}\n`, signers);
}

export function parseLocked(bytes: Uint8Array): Locked & { readonly note: Note } {
  const note = parseNote(bytes);
  const [label, origin, ...rows] = note.text.slice(0, -1).split("\n");
  const files = rows.map((row): LockedFile => {
    const [time = "", path = ""] = row.split(" ");
    return { path, untilMs: Date.parse(time) };
  });
  if (label !== LABEL || files.some(({ untilMs }) => Number.isNaN(untilMs)))
    throw new NoteError("The note does not name locked files.");
  return { origin: origin!, files, note };
}
