import type { Meaning } from "../core/meaning.ts";

const WORDS: ReadonlyMap<string, number> = new Map([
  ["info", 2],
  ["informational", 2],
  ["low", 3],
  ["medium", 5],
  ["moderate", 5],
  ["high", 8],
  ["critical", 10],
  ["fatal", 10],
]);

/** How grave an event is, from 1 to 10, as CEF and LEEF count: its own word, else a failure above the rest. */
export function severityOf(meaning: Meaning): number {
  const own = meaning.risk && WORDS.get(meaning.risk.value.toLowerCase());
  return own ?? (meaning.outcome.is === "failure" ? 5 : 2);
}
