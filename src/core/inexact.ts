/** A number with an exponent or at least as many digits as the first integers that are not exact. */
const MAY_BE_INEXACT = /[:,[]\s*-?(?:\d+(?:\.\d+)?[eE]|\d{16})/;

/** Whether there is a number in it that a double may not represent exactly. `source` is its JSON, where most have none. */
export function holdsInexact(value: object, source: string): boolean {
  return MAY_BE_INEXACT.test(source) && isInexactIn(value);
}

function isInexactIn(value: object): boolean {
  for (const key in value) {
    const held = (value as Readonly<Record<string, unknown>>)[key];
    if (typeof held === "object") {
      if (held !== null && isInexactIn(held)) return true;
    } else if (typeof held === "number" && !(Math.abs(held) <= Number.MAX_SAFE_INTEGER)) {
      return true;
    }
  }
  return false;
}
