/** Whether there is a number in it that a double may not represent exactly. */
export function holdsInexact(value: object): boolean {
  for (const key in value) {
    const held = (value as Readonly<Record<string, unknown>>)[key];
    if (typeof held === "object") {
      if (held !== null && holdsInexact(held)) return true;
    } else if (typeof held === "number" && !(Math.abs(held) <= Number.MAX_SAFE_INTEGER)) {
      return true;
    }
  }
  return false;
}
