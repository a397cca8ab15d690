import type { z } from "zod";
import { sinks } from "../sinks/index.ts";
import { configSchema } from "./schema.ts";
import { closestOf } from "./suggest.ts";

export type Issue = z.core.$ZodIssue;

/** A problem as a line: its path, the value where it may be shown, and what to do. */
export function problemsOf(issue: Issue, root: unknown): string[] {
  const path = pathText(issue.path);
  if (issue.code === "unrecognized_keys") {
    const known = keysAt(issue.path, root);
    return issue.keys.map((key) => {
      const meant = closestOf(key, known);
      const remedy =
        meant === undefined
          ? `it takes ${known.join(", ") || "no keys"}`
          : `did you mean ${JSON.stringify(meant)}?`;
      return `${pathText([...issue.path, key])}: this key is not known; ${remedy}`;
    });
  }
  if (issue.code === "invalid_union" && issue.errors.length > 0 && issue.message === "Invalid input") {
    // The branch that parsed furthest is the one that was meant.
    const branch = [...issue.errors].sort((a, b) => depthOf(b) - depthOf(a) || a.length - b.length)[0]!;
    return branch.flatMap((inner) =>
      problemsOf({ ...inner, path: [...issue.path, ...inner.path] } as Issue, root),
    );
  }
  if (issue.code === "invalid_union" && "discriminator" in issue && issue.discriminator === "type") {
    const types = sinks.map(({ type }) => type);
    const given = valueAt(root, issue.path);
    const meant = closestOf(String(given), types);
    const shown =
      given === undefined ? "is missing" : `${valueText(issue.path, given)} is not a type of sink`;
    return [
      `${path}: ${shown}; ${meant === undefined ? "" : `did you mean ${meant}? `}use one of ${types.join(", ")}`,
    ];
  }
  const value = valueAt(root, issue.path);
  // A string in the place of a section (hmac, sasl, oauth) may be the secret that belongs inside.
  const section = issue.code === "invalid_type" && issue.expected === "object" && typeof value === "string";
  const shown =
    value === undefined ? "is missing" : `is ${section ? "a string" : valueText(issue.path, value)}`;
  return [`${path}: ${shown}; ${remedyOf(issue)}`];
}

function depthOf(issues: readonly Issue[]): number {
  return Math.max(0, ...issues.map((issue) => issue.path.length));
}

function remedyOf(issue: Issue): string {
  if (issue.code === "invalid_type") return `it must be ${TYPES[issue.expected] ?? issue.expected}`;
  if (issue.code === "too_small" && issue.minimum === 1 && issue.origin !== "number")
    return "it must not be empty";
  if (issue.code === "too_small") return `at least ${issue.minimum}`;
  if (issue.code === "too_big") return `at most ${issue.maximum}`;
  if (issue.code === "invalid_value") return `use one of ${issue.values.map(String).join(", ")}`;
  return issue.message;
}

const TYPES: Readonly<Record<string, string>> = {
  array: "a list",
  object: "a section with keys of its own",
  string: "a string",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
};

/** The keys that the schema takes at a path. */
function keysAt(path: readonly PropertyKey[], root: unknown): string[] {
  let at: unknown = configSchema;
  for (const [depth, key] of path.entries()) at = stepInto(at, key, valueAt(root, path.slice(0, depth + 1)));
  return Object.keys(shapeOf(at) ?? {});
}

interface SchemaNode {
  readonly shape?: Record<string, unknown>;
  readonly element?: unknown;
  readonly options?: readonly unknown[];
  readonly def?: { readonly innerType?: unknown; readonly in?: unknown };
}

/** Wrappers (defaults, optional, transforms) have the schema inside. */
function unwrapped(schema: unknown): SchemaNode {
  let at = schema as SchemaNode;
  for (let depth = 0; depth < 10 && at?.shape === undefined; depth++) {
    const inner = at?.def?.innerType ?? at?.def?.in;
    if (inner === undefined) break;
    at = inner as SchemaNode;
  }
  return at ?? {};
}

function shapeOf(schema: unknown): Record<string, unknown> | undefined {
  return unwrapped(schema).shape;
}

function stepInto(schema: unknown, key: PropertyKey, value: unknown): unknown {
  const at = unwrapped(schema);
  if (typeof key === "string") return at.shape?.[key];
  const options = unwrapped(at.element).options;
  if (options === undefined) return at.element;
  const type = (value as { type?: unknown } | undefined)?.type;
  return options.find((option) => {
    const literal = unwrapped(shapeOf(option)?.type) as { readonly value?: unknown };
    return literal.value === type;
  });
}

export function pathText(path: readonly PropertyKey[]): string {
  const text = path.map((key) => (typeof key === "number" ? `[${key}]` : `.${String(key)}`)).join("");
  return text.replace(/^\./, "") || "the file";
}

function valueAt(root: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (value, key) => (value as Record<PropertyKey, unknown> | null | undefined)?.[key],
    root,
  );
}

/** Values under these names may be secrets that were written in the wrong place. */
function valueText(path: readonly PropertyKey[], value: unknown): string {
  if (path.some((key) => /key|token|secret|password|auth|credential|header/i.test(String(key))))
    return "[not shown]";
  if (path.some((key) => /url/i.test(String(key)))) return originText(value);
  if (typeof value === "object" && value !== null) return Array.isArray(value) ? "a list" : "an object";
  return JSON.stringify(value)?.slice(0, 60) ?? "nothing";
}

/** The path and the query of an address may be secrets, its host is none. */
function originText(value: unknown): string {
  const [, origin, rest] = /^(https?:\/\/[^/?#@]+)(?=$|[/?#])(.*)$/is.exec(String(value)) ?? [];
  if (typeof value !== "string" || origin === undefined || origin.length > 100) return "[not shown]";
  return JSON.stringify(rest === "" || rest === "/" ? origin : `${origin}/…`);
}

/** Leaves out problems that follow from a field that is itself wrong. */
export function withoutFollowUps(issues: readonly Issue[]): Issue[] {
  const alone = new Set(issues.filter(({ code }) => code !== "custom").map(({ path }) => pathText(path)));
  return issues.filter((issue) => issue.code !== "custom" || !alone.has(pathText(issue.path)));
}
