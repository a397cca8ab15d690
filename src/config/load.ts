import { readFileSync, statSync } from "node:fs";
import { parseDocument } from "yaml";
import type { z } from "zod";
import { UsageError } from "../core/errors.ts";
import { Secret } from "../core/secret.ts";
import { type Config, configSchema } from "./schema.ts";

const CONFIG_BYTES_MAX = 10_000_000;

export interface LoadedConfig {
  readonly config: Config;
  readonly file: string;
}

/** Reads and checks a config file; all that is wrong is told at once, with path, value and remedy. */
export function loadConfig(file: string, env: Readonly<Record<string, string | undefined>>): LoadedConfig {
  const config = parseConfig(readConfig(file), file);
  const problems = [...secretsOf(config, "")].flatMap(([path, secret]) => resolveSecret(path, secret, env));
  if (problems.length > 0) throw configError(file, problems);
  return { config, file };
}

export function parseConfig(text: string, file: string): Config {
  // Warnings would print what stands in the file.
  const document = parseDocument(text, { prettyErrors: true, logLevel: "error" });
  if (document.errors.length > 0) throw configError(file, document.errors.map(notYaml));
  const value = contentOf(document, file);
  const parsed = configSchema.safeParse(value, { reportInput: true });
  const problems = [
    ...(parsed.error === undefined
      ? []
      : oneForEach(parsed.error.issues).flatMap((issue) => problemsOf(issue, value))),
    ...loginsInAddresses(value, []),
  ];
  if (problems.length > 0 || !parsed.success) throw configError(file, problems);
  return parsed.data;
}

/** A password in an address is a literal secret too. */
function* loginsInAddresses(value: unknown, path: readonly PropertyKey[]): Generator<string> {
  if (typeof value === "string") {
    if (/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*:[^/?#]*@/i.test(value))
      yield `${pathText(path)}: is [not shown]; an address holds no password: give it as { env: NAME } or { file: PATH } in a field of its own`;
  } else if (typeof value === "object" && value !== null) {
    for (const [key, item] of Object.entries(value))
      yield* loginsInAddresses(item, [...path, Array.isArray(value) ? Number(key) : key]);
  }
}

/** The sentence alone, with its place: what stands there may be a secret. */
function notYaml(error: Error): string {
  const sentence = error.message
    .split("\n")[0]!
    .replace(/:?\s*"[^"]*"/g, "")
    .replace(/:$/, "");
  return `it is not YAML: ${sentence}`;
}

function contentOf(document: ReturnType<typeof parseDocument>, file: string): unknown {
  try {
    return document.toJS({ maxAliasCount: 100 });
  } catch (error) {
    throw configError(file, [`it is not YAML: ${(error as Error).message.split(":")[0]}`]);
  }
}

/** Where a field is wrong by itself, what it means together with others is left unsaid. */
function oneForEach(issues: readonly Issue[]): Issue[] {
  const alone = new Set(issues.filter(({ code }) => code !== "custom").map(({ path }) => pathText(path)));
  return issues.filter((issue) => issue.code !== "custom" || !alone.has(pathText(issue.path)));
}

function readConfig(file: string): string {
  try {
    const { size } = statSync(file);
    if (size > CONFIG_BYTES_MAX) throw new Error(`it has ${size} bytes`);
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new UsageError(
      `The config file ${file} cannot be read (${(error as Error).message}): name another with --config FILE, or write one with "tidemark init".`,
      { cause: error },
    );
  }
}

function configError(file: string, problems: readonly string[]): UsageError {
  const count = problems.length === 1 ? "one thing" : `${problems.length} things`;
  return new UsageError(
    `The config file ${file} has ${count} to mend:\n${problems.map((problem) => `  - ${problem}`).join("\n")}`,
  );
}

type Issue = z.core.$ZodIssue;

function problemsOf(issue: Issue, root: unknown): string[] {
  const path = pathText(issue.path);
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map(
      (key) =>
        `${pathText([...issue.path, key])}: this key is not known; see config/REFERENCE.md for those that are`,
    );
  }
  if (issue.code === "invalid_union" && issue.errors.length > 0 && issue.message === "Invalid input") {
    // The branch that came furthest is the one that was meant.
    const branch = [...issue.errors].sort((a, b) => depthOf(b) - depthOf(a) || a.length - b.length)[0]!;
    return branch.flatMap((inner) =>
      problemsOf({ ...inner, path: [...issue.path, ...inner.path] } as Issue, root),
    );
  }
  if (issue.code === "invalid_union" && "discriminator" in issue && issue.discriminator === "type") {
    return [
      `${path}: ${valueText(issue.path, valueAt(root, issue.path))} is no type of sink; see config/REFERENCE.md for those that are`,
    ];
  }
  const value = valueAt(root, issue.path);
  // A text in the place of a section (hmac, sasl, oauth) may be the secret that belongs into it.
  const section = issue.code === "invalid_type" && issue.expected === "object" && typeof value === "string";
  const shown =
    value === undefined ? "is missing" : `is ${section ? "a text" : valueText(issue.path, value)}`;
  return [`${path}: ${shown}; ${remedyOf(issue)}`];
}

function depthOf(issues: readonly Issue[]): number {
  return Math.max(0, ...issues.map((issue) => issue.path.length));
}

function remedyOf(issue: Issue): string {
  if (issue.code === "invalid_type") return `it must be ${article(issue.expected)}`;
  if (issue.code === "too_small" && issue.minimum === 1 && issue.origin !== "number")
    return "it must not be empty";
  if (issue.code === "too_small") return `at least ${issue.minimum}`;
  if (issue.code === "too_big") return `at most ${issue.maximum}`;
  if (issue.code === "invalid_value") return `use one of ${issue.values.map(String).join(", ")}`;
  return issue.message;
}

function article(expected: string): string {
  return /^[aeiou]/.test(expected) ? `an ${expected}` : `a ${expected}`;
}

function pathText(path: readonly PropertyKey[]): string {
  const text = path.map((key) => (typeof key === "number" ? `[${key}]` : `.${String(key)}`)).join("");
  return text.replace(/^\./, "") || "the file";
}

function valueAt(root: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (value, key) => (value as Record<PropertyKey, unknown> | null | undefined)?.[key],
    root,
  );
}

/** What stands under a name like these may be a secret that was written where none belongs. */
function valueText(path: readonly PropertyKey[], value: unknown): string {
  if (path.some((key) => /key|token|secret|password|auth|credential|header|url/i.test(String(key))))
    return "[not shown]";
  if (typeof value === "object" && value !== null) return Array.isArray(value) ? "a list" : "an object";
  return JSON.stringify(value)?.slice(0, 60) ?? "nothing";
}

function* secretsOf(value: unknown, path: string): Generator<[string, Secret]> {
  if (value instanceof Secret) {
    yield [path, value];
  } else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) yield* secretsOf(item, `${path}[${index}]`);
  } else if (typeof value === "object" && value !== null) {
    for (const [key, item] of Object.entries(value))
      yield* secretsOf(item, path === "" ? key : `${path}.${key}`);
  }
}

function resolveSecret(
  path: string,
  secret: Secret,
  env: Readonly<Record<string, string | undefined>>,
): string[] {
  const { source } = secret;
  if (source === undefined) return [];
  if ("env" in source) {
    const value = env[source.env];
    if (value === undefined || value === "")
      return [`${path}: the environment variable ${source.env} is not set`];
    secret.resolve(value);
    return [];
  }
  return resolveFile(path, secret, source.file);
}

function resolveFile(path: string, secret: Secret, file: string): string[] {
  try {
    const { mode } = statSync(file);
    if ((mode & 0o077) !== 0) {
      return [`${path}: ${file} can be read by its group or others; run chmod 600 ${file}`];
    }
    const value = readFileSync(file, "utf8").replace(/\r?\n$/, "");
    if (value === "") return [`${path}: ${file} is empty`];
    secret.resolve(value);
    return [];
  } catch (error) {
    return [`${path}: ${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? "error"})`];
  }
}
