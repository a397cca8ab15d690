import type { Raw } from "./fields.ts";

/** `changes` over `current`: objects member by member, arrays and values whole. Neither is changed. */
export function merged(current: Raw, changes: Raw): Raw {
  const result: Raw = { ...current };
  for (const [name, value] of Object.entries(changes)) {
    const old = Object.hasOwn(current, name) ? current[name] : undefined;
    // defineProperty, because a member named __proto__ is a member like any other.
    Object.defineProperty(result, name, {
      value: isObject(old) && isObject(value) ? merged(old, value) : value,
      enumerable: true,
      configurable: true,
      writable: true,
    });
  }
  return result;
}

function isObject(value: unknown): value is Raw {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
