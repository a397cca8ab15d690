import { existsSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { createInterface } from "node:readline";
import type { Command } from "commander";
import { schemaText } from "../config/docs.ts";
import { UsageError } from "../core/errors.ts";
import type { Io } from "./io.ts";

interface Flags {
  readonly output: string;
  readonly yes?: boolean;
  readonly force?: boolean;
}

interface Question {
  readonly key: string;
  readonly text: string;
  readonly preset: string;
  readonly pattern: RegExp;
  readonly hint: string;
}

const QUESTIONS: readonly Question[] = [
  {
    key: "name",
    text: "A name for the account",
    preset: "main",
    pattern: /^[A-Za-z0-9][\w.-]{0,63}$/,
    hint: "letters, digits, dots, dashes",
  },
  { key: "region", text: "Region (us, eu, in)", preset: "us", pattern: /^(us|eu|in)$/, hint: "us, eu or in" },
  {
    key: "env",
    text: "The environment variable that holds the API key",
    preset: "DIRECTORY_API_KEY",
    pattern: /^[A-Za-z_]\w*$/,
    hint: "a variable's name, not the key itself",
  },
  {
    key: "organizations",
    text: "Organizations: own (a single tenant), all, or ids separated by commas",
    preset: "own",
    pattern: /^(own|all|[0-9a-fA-F]{8,}(,[0-9a-fA-F]{8,})*)$/,
    hint: "own, all, or ids",
  },
  {
    key: "since",
    text: "How far back the first read goes",
    preset: "90d",
    pattern: /^\d+[hdw]$/,
    hint: "such as 90d",
  },
  {
    key: "directory",
    text: "The folder for event files",
    preset: "./events",
    pattern: /^\S.*$/,
    hint: "a path",
  },
];

export function registerInit(program: Command, io: Io): void {
  program
    .command("init")
    .summary("ask a few questions and write a config")
    .description(
      "Asks a few questions and writes a config that exports to files. Other sinks are added by hand; config/REFERENCE.md lists them.",
    )
    .option("-o, --output <file>", "the file to write", "tidemark.yaml")
    .option("-y, --yes", "ask nothing, take the defaults")
    .option("--force", "overwrite the file if it exists")
    .addHelpText("after", "\nExample:\n  $ tidemark init --output tidemark.yaml")
    .action((flags: Flags) => init(flags, io));
}

async function init(flags: Flags, io: Io): Promise<void> {
  if (existsSync(flags.output) && !flags.force) {
    throw new UsageError(
      `${flags.output} exists: choose another name with --output, or overwrite it with --force.`,
    );
  }
  const answers = flags.yes
    ? Object.fromEntries(QUESTIONS.map(({ key, preset }) => [key, preset]))
    : await askAll(io);
  const schema = `${basename(flags.output).replace(/\.ya?ml$/, "")}.schema.json`;
  writeFileSync(flags.output, configText(answers, schema), { mode: 0o600 });
  // Beside the config, so that editors find it wherever the config goes.
  writeFileSync(join(dirname(flags.output), schema), schemaText());
  io.stdout.write(
    `Wrote ${flags.output}, and ${schema} for editors. Next: set ${answers.env}, run "tidemark check --online", then "tidemark run".\n`,
  );
}

/** Reads line by line, so that answers can also come from a file or a pipe. */
async function askAll(io: Io): Promise<Record<string, string>> {
  const lines = createInterface({ input: io.stdin, signal: io.signal });
  const given = lines[Symbol.asyncIterator]();
  const answers: Record<string, string> = {};
  try {
    for (const question of QUESTIONS) answers[question.key] = await ask(question, given, io);
    return answers;
  } finally {
    lines.close();
  }
}

async function ask(
  { text, preset, pattern, hint }: Question,
  given: AsyncIterator<string>,
  io: Io,
): Promise<string> {
  for (;;) {
    io.stdout.write(`${text} [${preset}]: `);
    const { value, done } = await given.next();
    if (done) throw new UsageError("The questions were not all answered; nothing was written.");
    const answer = value.trim() || preset;
    if (pattern.test(answer)) return answer;
    io.stdout.write(`Please give ${hint}.\n`);
  }
}

function configText(answers: Readonly<Record<string, string>>, schema: string): string {
  const { name, region, env, organizations, since, directory } = answers;
  const ids = organizations === "all" ? "all" : `[${organizations}]`;
  return `# yaml-language-server: $schema=./${schema}
accounts:
  - name: ${name}
    region: ${region}
    apiKey: { env: ${env} }
${organizations === "own" ? "" : `    organizations: ${ids}\n`}    since: ${since}
state: ./tidemark.db
sinks:
  - name: disk
    type: file
    directory: ${JSON.stringify(directory)}
    format: raw
server:
  port: 9464
`;
}
