/**
 * Values in an answer, by the brackets and commas in its text. A broken server could send millions of empty objects, or
 * of keys that occur once: parsing them would take hundreds of megabytes and stop the program for seconds. An answer
 * about 5,000 events that are all refused has 100,000.
 */
const VALUES_MAX = 200_000;

export class TooManyValuesError extends Error {
  override readonly name = "TooManyValuesError";
}

/** Parses an answer. Throws as JSON.parse does, and TooManyValuesError. */
export function parseBounded(text: string): unknown {
  if (hasManyValues(text))
    throw new TooManyValuesError(`The answer has more than ${VALUES_MAX.toLocaleString("en")} values.`);
  return JSON.parse(text);
}

function hasManyValues(text: string): boolean {
  if (text.length < VALUES_MAX) return false;
  let left = VALUES_MAX;
  for (const mark of ["{", "[", ","])
    for (let at = text.indexOf(mark); at >= 0; at = text.indexOf(mark, at + 1)) if (--left < 0) return true;
  return false;
}
