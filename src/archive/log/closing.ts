import { type Note, NoteError, parseNote, type Signer, signNote } from "./note.ts";

/*
 * `log/closing` names the files that are being written, so that `verify` can tell them from foreign ones. It is there
 * from before the first of these files until the checkpoint that covers them. It is a signed note:
 *
 *   tidemark/closing/v1
 *   <origin>
 *   <size of the log>
 *   <time>
 *   <path>, one on each line
 *
 * It counts only while the log has that size, so a note of an earlier closing explains nothing.
 */
export const CLOSING_FILE = "log/closing";
const LABEL = "tidemark/closing/v1";

export interface Closing {
  readonly origin: string;
  readonly size: number;
  readonly timeMs: number;
  readonly paths: readonly string[];
}

export function signClosing({ origin, size, timeMs, paths }: Closing, signers: readonly Signer[]): string {
  const lines = [LABEL, origin, size, new Date(timeMs).toISOString(), ...paths];
  return signNote(`${lines.join("\n")}\n`, signers);
}

export function parseClosing(bytes: Uint8Array): Closing & { readonly note: Note } {
  const note = parseNote(bytes);
  const [label, origin, size, time, ...paths] = note.text.slice(0, -1).split("\n");
  const timeMs = Date.parse(time ?? "");
  if (label !== LABEL || !/^\d{1,15}$/.test(size ?? "") || Number.isNaN(timeMs))
    throw new NoteError("The note does not name the files of a closing.");
  return { origin: origin!, size: Number(size), timeMs, paths, note };
}
