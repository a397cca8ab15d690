/**
 * Objects and arrays in an answer. A broken server could send millions of empty ones: parsing them would take hundreds
 * of megabytes and stop the program for seconds.
 */
const OBJECTS_MAX = 200_000;

export class TooManyObjectsError extends Error {
  override readonly name = "TooManyObjectsError";
}

/** Parses an answer. Throws as JSON.parse does, and TooManyObjectsError. */
export function parseBounded(text: string): unknown {
  if (hasManyObjects(text))
    throw new TooManyObjectsError(`The answer has more than ${OBJECTS_MAX.toLocaleString("en")} objects.`);
  return JSON.parse(text);
}

function hasManyObjects(text: string): boolean {
  if (text.length < OBJECTS_MAX) return false;
  let left = OBJECTS_MAX;
  for (const opening of ["{", "["])
    for (let at = text.indexOf(opening); at >= 0; at = text.indexOf(opening, at + 1))
      if (--left < 0) return true;
  return false;
}
