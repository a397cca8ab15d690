/*
 * A look at the bytes before an event is parsed. A scan leaves out events that cannot match: it may let others
 * through, and the test of the parsed event decides.
 */

/** Lower-case texts of which the bytes of every matching event contain one; null where none is known. */
export type Prefilter = readonly string[] | null;

/** Characters that JSON has one spelling for, apart from \u escapes, which the prefilter always lets through. */
const SAFE_RUN = /[A-Za-z0-9 _.,:;@#$%&=+!?*()[\]{}<>|~^'`-]+/g;
const RUN_LENGTH_MIN = 2;
/** The longest stretch of a text that must occur in the bytes of every event that contains the text. */
export function safeRun(text: string): string | null {
  const runs = (text.match(SAFE_RUN) ?? []).toSorted((a, b) => b.length - a.length);
  return runs[0] !== undefined && runs[0].length >= RUN_LENGTH_MIN ? runs[0] : null;
}

/** Each word is looked for by itself: beyond so many it is faster to parse every event. */
const WORDS_MAX = 50;

/** For events that contain at least one of the runs. Null in the list: nothing can be left out. */
export function prefilterOf(runs: readonly (string | null)[]): Prefilter {
  if (runs.some((run) => run === null)) return null;
  const words = new Set(runs.map((run) => run!.toLowerCase()));
  return words.size > WORDS_MAX ? null : [...words];
}

/** A string, which is skipped, or a number. */
const STRING_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/gs;
const IN_NUMBERS = /^[-+.\de]+$/;

/** Whether a value of the event contains the text, without regard to case. A number counts as it is in the bytes, too. */
export function textTest(text: string): (event: unknown, bytes: Buffer) => boolean {
  const wanted = text.toLowerCase();
  const holds = (value: unknown): boolean => {
    if (typeof value === "string") return value.toLowerCase().includes(wanted);
    if (typeof value !== "object" || value === null) return String(value).toLowerCase().includes(wanted);
    return Object.values(value).some(holds);
  };
  if (!IN_NUMBERS.test(wanted)) return holds;
  // JavaScript writes some numbers differently, such as 2.50 and integers past 2^53.
  const isInNumber = (bytes: Buffer) =>
    (bytes.toString("utf8").match(STRING_OR_NUMBER) ?? []).some(
      (token) => !token.startsWith('"') && token.toLowerCase().includes(wanted),
    );
  return (event, bytes) => holds(event) || (event !== undefined && isInNumber(bytes));
}

export function textPrefilter(text: string): Prefilter {
  return prefilterOf([safeRun(text)]);
}
