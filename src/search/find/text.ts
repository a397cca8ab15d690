/*
 * A look at the bytes before an event is parsed. A scan leaves out events that cannot match: it may let others
 * through, and the test of the parsed event decides.
 */

/** Finds the places in a frame's text where a match could be; null where every event has to be looked at. */
export type Prefilter = RegExp | null;

/** Characters that JSON has one spelling for, apart from \u escapes, which the prefilter always lets through. */
const SAFE_RUN = /[A-Za-z0-9 _.,:;@#$%&=+!?*()[\]{}<>|~^'`-]+/g;
const RUN_LENGTH_MIN = 2;
/** Escapes, and the bytes of two characters whose lower case is, or begins with, an ASCII letter. */
const ALWAYS = ["\\\\u", "\u00e2\u0084\u00aa", "\u00c4\u00b0"];

/** The longest stretch of a text that must occur in the bytes of every event that contains the text. */
export function safeRun(text: string): string | null {
  const runs = (text.match(SAFE_RUN) ?? []).toSorted((a, b) => b.length - a.length);
  return runs[0] !== undefined && runs[0].length >= RUN_LENGTH_MIN ? runs[0] : null;
}

/** For events that contain at least one of the runs. Null in the list: nothing can be left out. */
export function prefilterOf(runs: readonly (string | null)[]): Prefilter {
  if (runs.some((run) => run === null)) return null;
  const words = runs.map((run) => run!.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp([...words, ...ALWAYS].join("|"), "gi");
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

/** The rows, given by the starts of their slices in ascending order, that a prefilter finds in a frame. */
export function candidates(
  content: Buffer,
  rows: readonly { readonly start: number; readonly length: number }[],
  prefilter: RegExp,
): boolean[] {
  const found = rows.map(() => false);
  const first = rows[0]!.start;
  const text = content.toString("latin1", first, rows.at(-1)!.start + rows.at(-1)!.length);
  prefilter.lastIndex = 0;
  let at = 0;
  for (let match = prefilter.exec(text); match !== null; match = prefilter.exec(text)) {
    const place = match.index + first;
    while (at < rows.length && rows[at]!.start + rows[at]!.length <= place) at++;
    if (at === rows.length) break;
    if (rows[at]!.start > place) {
      prefilter.lastIndex = Math.max(prefilter.lastIndex, rows[at]!.start - first);
      continue;
    }
    found[at] = true;
    prefilter.lastIndex = rows[at]!.start + rows[at]!.length - first;
  }
  return found;
}
