/*
 * A look at the bytes before an event is parsed. A scan leaves out events that cannot match: it may let others
 * through, and the test of the parsed event decides.
 */

/** Lower-case texts of which the bytes of every matching event contain one; null where none is known. */
export type Prefilter = readonly string[] | null;

/** Characters that JSON has one spelling for, apart from \u escapes, which the prefilter always lets through. */
const SAFE_RUN = /[A-Za-z0-9 _.,:;@#$%&=+!?*()[\]{}<>|~^'`-]+/g;
const RUN_LENGTH_MIN = 2;
/** Escapes, and the bytes of two characters whose lower case is, or begins with, an ASCII letter. */
const OTHER_SPELLINGS = ["\\u", "\u00e2\u0084\u00aa", "\u00e4\u00b0"];
const SPELLED = /\\u([0-9a-f]{4})|\u00e2\u0084\u00aa|\u00e4\u00b0/g;

/** The longest stretch of a text that must occur in the bytes of every event that contains the text. */
export function safeRun(text: string): string | null {
  const runs = (text.match(SAFE_RUN) ?? []).toSorted((a, b) => b.length - a.length);
  return runs[0] !== undefined && runs[0].length >= RUN_LENGTH_MIN ? runs[0] : null;
}

/** For events that contain at least one of the runs. Null in the list: nothing can be left out. */
export function prefilterOf(runs: readonly (string | null)[]): Prefilter {
  if (runs.some((run) => run === null)) return null;
  return [...new Set(runs.map((run) => run!.toLowerCase()))];
}

/** A frame's bytes as the words of a prefilter are compared with them: one character for each byte. */
export function searchable(content: Buffer, start = 0, end = content.length): string {
  return content.toString("latin1", start, end).toLowerCase();
}

/** Whether a text of `searchable` contains a word of the prefilter, in whatever spelling. */
export function mayContain(text: string, prefilter: readonly string[]): boolean {
  if (prefilter.some((word) => text.includes(word))) return true;
  if (!OTHER_SPELLINGS.some((mark) => text.includes(mark))) return false;
  const plain = text.replace(SPELLED, (spelled, code?: string) => {
    if (code !== undefined) return String.fromCharCode(Number.parseInt(code, 16)).toLowerCase();
    return spelled === OTHER_SPELLINGS[1] ? "k" : "i";
  });
  return prefilter.some((word) => plain.includes(word));
}

/** Whether a value of the event contains the text, without regard to case. */
export function textTest(text: string): (event: unknown) => boolean {
  const wanted = text.toLowerCase();
  const holds = (value: unknown): boolean => {
    if (typeof value === "string") return value.toLowerCase().includes(wanted);
    if (typeof value !== "object" || value === null) return String(value).toLowerCase().includes(wanted);
    return Object.values(value).some(holds);
  };
  return holds;
}

/** A text that is a number can be spelled in several ways in an event. */
export function textPrefilter(text: string): Prefilter {
  return prefilterOf([safeRun(text)]);
}

/** Which of the rows, given in ascending order of their slices, contain a word of the prefilter. */
export function candidates(
  content: Buffer,
  rows: readonly { readonly start: number; readonly length: number }[],
  prefilter: readonly string[],
): boolean[] {
  const found = rows.map(() => false);
  const first = rows[0]!.start;
  const text = searchable(content, first, rows.at(-1)!.start + rows.at(-1)!.length);
  const slice = ({ start, length }: { start: number; length: number }) =>
    text.slice(start - first, start - first + length);
  for (const word of prefilter) for (const row of rowsWith(text, rows, word, first)) found[row] = true;
  for (const mark of OTHER_SPELLINGS)
    for (const row of rowsWith(text, rows, mark, first))
      if (!found[row]) found[row] = mayContain(slice(rows[row]!), prefilter);
  return found;
}

/** The numbers of the rows that contain a word. */
function* rowsWith(
  text: string,
  rows: readonly { readonly start: number; readonly length: number }[],
  word: string,
  first: number,
): Generator<number> {
  let row = 0;
  for (let at = text.indexOf(word); at >= 0; ) {
    while (row < rows.length && rows[row]!.start + rows[row]!.length <= at + first) row++;
    if (row === rows.length) return;
    const isInside = rows[row]!.start <= at + first;
    if (isInside) yield row;
    const next = isInside ? rows[row]!.start + rows[row]!.length : rows[row]!.start;
    at = text.indexOf(word, next - first);
  }
}
