import { readFileSync, statSync } from "node:fs";
import { hostname } from "node:os";
import { parseDocument } from "yaml";
import { UsageError } from "../core/errors.ts";
import { linkTarget } from "../core/link-target.ts";
import { Secret } from "../core/secret.ts";
import { resolveShard } from "../core/shard.ts";
import { pathText, problemsOf, withoutFollowUps } from "./problems.ts";
import { type Config, configSchema } from "./schema.ts";
import { configOfShard } from "./shard.ts";

const CONFIG_BYTES_MAX = 10_000_000;

export interface LoadedConfig {
  readonly config: Config;
  readonly file: string;
}

/** Reads and checks a config file. All problems are reported at once, each with path, value and remedy. */
export function loadConfig(file: string, env: Environment): LoadedConfig {
  const config = readAndParse(file, env);
  const problems = [...secretsOf(config, "")].flatMap(([path, secret]) => resolveSecret(path, secret, env));
  if (problems.length === 0) problems.push(...unsendableKeys(config));
  if (problems.length > 0) throw configError(file, problems);
  return { config, file };
}

/**
 * For commands that only look: a state file needs no secret, so that anyone on call can run them. The state of a
 * cluster is in Kafka, which may need a login.
 */
export function loadConfigForReading(file: string, env: Environment): LoadedConfig {
  const config = readAndParse(file, env);
  return config.cluster === undefined ? { config, file } : loadConfig(file, env);
}

/** Files beside the state (its log, its lock, an archive's pages) belong beside the file itself, not beside a link to it. */
function readAndParse(file: string, env: Environment): Config {
  const config = parseConfig(readConfig(file), file, env);
  return { ...config, state: linkTarget(config.state) };
}

type Environment = Readonly<Record<string, string | undefined>>;

export function parseConfig(text: string, file: string, env: Environment = {}): Config {
  // Warnings would print parts of the file.
  const document = parseDocument(text, { prettyErrors: true, logLevel: "error" });
  if (document.errors.length > 0) throw configError(file, document.errors.map(notYaml));
  const value = contentOf(document, file);
  if (value === null || value === undefined)
    throw new UsageError(
      `The config file ${file} is empty. Write one with "tidemark init --force --output ${file}".`,
    );
  const parsed = configSchema.safeParse(value, { reportInput: true });
  const problems = [
    ...(parsed.error === undefined
      ? []
      : withoutFollowUps(parsed.error.issues).flatMap((issue) => problemsOf(issue, value))),
    ...loginsInAddresses(value, []),
  ];
  if (problems.length > 0 || !parsed.success) throw configError(file, problems);
  const { shard: setting, ...config } = parsed.data;
  if (setting === undefined) return config;
  const shard = resolveShard(setting, env, hostname());
  if (typeof shard === "string") throw configError(file, [`shard: ${shard}`]);
  return configOfShard(config, shard);
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

/** Only the sentence and its place: the text there may be a secret. */
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

function readConfig(file: string): string {
  try {
    const { size } = statSync(file);
    if (size > CONFIG_BYTES_MAX) throw new Error(`it has ${size} bytes`);
    return readFileSync(file, "utf8");
  } catch (error) {
    const why =
      (error as NodeJS.ErrnoException).code === "ENOENT"
        ? `There is no config file ${file}.`
        : `The config file ${file} cannot be read (${(error as Error).message}).`;
    throw new UsageError(`${why} Name another with --config FILE, or write one with "tidemark init".`, {
      cause: error,
    });
  }
}

function configError(file: string, problems: readonly string[]): UsageError {
  const count = problems.length === 1 ? "one problem" : `${problems.length} problems`;
  return new UsageError(
    `The config file ${file} has ${count}:\n${problems.map((problem) => `  - ${problem}`).join("\n")}`,
  );
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

/** An API key goes into a header, which takes no blanks, control characters or letters beyond ASCII. */
function unsendableKeys({ accounts }: Config): string[] {
  return accounts.flatMap(({ name, apiKey }, index) => {
    if (apiKey === undefined || /^[\x21-\x7e]+$/.test(apiKey.reveal())) return [];
    const { source } = apiKey;
    const place =
      source === undefined ? "the key" : "env" in source ? `the variable ${source.env}` : source.file;
    return [
      `accounts[${index}].apiKey: the API key of "${name}" holds blanks, line breaks or other characters that no header can carry; write the key alone into ${place}`,
    ];
  });
}

function resolveSecret(path: string, secret: Secret, env: Environment): string[] {
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
    // Editors add line ends, and some a byte order mark.
    const value = readFileSync(file, "utf8").replace(/^\uFEFF|[\r\n]+$/g, "");
    if (value === "") return [`${path}: ${file} is empty`];
    secret.resolve(value);
    return [];
  } catch (error) {
    return [`${path}: ${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? "error"})`];
  }
}
