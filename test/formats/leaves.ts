import { expect } from "vitest";

export interface LeafAt {
  readonly path: readonly string[];
  readonly value: unknown;
}

/** Every leaf of a JSON value: scalars, and objects and arrays that are empty. */
export function leavesOf(value: unknown, path: readonly string[] = [], found: LeafAt[] = []): LeafAt[] {
  if (typeof value === "object" && value !== null && Object.keys(value).length > 0) {
    for (const [key, inner] of Object.entries(value)) leavesOf(inner, [...path, key], found);
  } else {
    found.push({ path, value });
  }
  return found;
}

/** The leaf at a path, or undefined. */
export function leafAt(value: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (at, key) => (at === null ? undefined : (at as Record<string, unknown>)?.[key]),
    value,
  );
}

/** Fields whose values mean something to the program, and so cannot be made unique. */
const MEANT =
  /^(type|source_type|service|event_type|timestamp|success|.*_ip|ip|.*email|severity|status|logon_type|.*itude|organization|sso_url)$/;

/** The same event with a different value in each text and number, so that none can be taken for another. */
export function withUniqueLeaves(value: unknown, key = "", next = { number: 1000 }): unknown {
  if (Array.isArray(value)) return value.map((inner) => withUniqueLeaves(inner, key, next));
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(
      Object.entries(value).map(([name, inner]) => [name, withUniqueLeaves(inner, name, next)]),
    );
  }
  if (MEANT.test(key)) return value;
  if (typeof value === "string") return `${value}~${next.number++}`;
  return typeof value === "number" ? value * 1e6 + next.number++ : value;
}

/** Fails with the event when there are faults; cheaper than an assertion for each of many thousand events. */
export function none(faults: readonly string[], event: unknown): void {
  if (faults.length > 0) expect(faults, JSON.stringify(event)).toEqual([]);
}
