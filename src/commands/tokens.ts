import { join } from "node:path";
import type { Command } from "commander";
import { openAccesses, searchFolder } from "../app/search-folder.ts";
import { loadConfig } from "../config/load.ts";
import { closestOf } from "../config/suggest.ts";
import { systemClock } from "../core/clock.ts";
import { UsageError } from "../core/errors.ts";
import { openTokens, RIGHTS, type Right, type Token } from "../search/access/tokens.ts";
import type { Io } from "./io.ts";
import { countOption, durationOption, listOption, withConfig } from "./options.ts";
import { printable } from "./search-output.ts";

const OWNER = /^(provider:)?[0-9a-f]{24}$/;

export function registerTokens(program: Command, io: Io): void {
  const tokens = program
    .command("tokens")
    .summary("tokens for the search page and the Insights interface, and who used them");
  registerNew(tokens, io);
  withConfig(tokens.command("list"), "tidemark tokens list")
    .summary("list the tokens")
    .option("--json", "as JSON")
    .action((flags: { config: string; json?: boolean }) => {
      const list = opened(flags.config, io).tokens.list();
      if (flags.json) io.stdout.write(`${JSON.stringify(list.map(({ sha256: _, ...token }) => token))}\n`);
      else for (const token of list) io.stdout.write(`${lineOf(token)}\n`);
      if (list.length === 0) io.stderr.write("There are no tokens.\n");
    });
  withConfig(tokens.command("revoke"), "tidemark tokens revoke elastic")
    .summary("revoke a token")
    .description("Revokes a token. A running process refuses it within a second.")
    .argument("<token>", "its name or id")
    .action((name: string, flags: { config: string }) => {
      const token = opened(flags.config, io).tokens.revoke(name);
      io.stdout.write(`The token "${token.name}" (${token.id}) is revoked.\n`);
    });
  withConfig(tokens.command("log"), "tidemark tokens log -n 20")
    .summary("show who asked for what")
    .description(
      "Shows the access entries, one for each query: who, when, what was asked, how many events came back.",
    )
    .option("-n, --limit <entries>", "how many of the newest", countOption, 100)
    .option("--json", "one JSON object for each entry")
    .action((flags: { config: string; limit: number; json?: boolean }) => {
      for (const entry of opened(flags.config, io).accesses.list(flags.limit)) {
        const { time, who, operation, status, events, query } = entry;
        const came = events === null ? "" : `  ${events} events`;
        const text = `${time}  ${who}  ${operation}  ${status}${came}  ${JSON.stringify(query)}`;
        io.stdout.write(`${flags.json ? JSON.stringify(entry) : printable(text)}\n`);
      }
    });
}

function registerNew(tokens: Command, io: Io): void {
  withConfig(
    tokens.command("new"),
    "tidemark tokens new elastic --organization 5f0c5f0c5f0c5f0c5f0c5f0c --expires 90d",
  )
    .summary("make a token")
    .description(
      "Makes a token and prints it once; only its hash is stored. The Insights interface takes it as x-api-key, the page as its token.",
    )
    .argument("<name>", "what it is for; it appears in the access entries")
    .requiredOption("--organization <ids>", "the organizations that it may see, or all", listOption)
    .option("--right <rights>", `what it may be used for: ${RIGHTS.join(", ")}; both by default`, listOption)
    .option(
      "--expires <duration>",
      "how long it is valid, such as 90d; without it, until it is revoked",
      durationOption,
    )
    .action(
      (
        name: string,
        flags: { config: string; organization: string[]; right?: string[]; expires?: number },
      ) => {
        const { tokens: store } = opened(flags.config, io);
        const { secret, token } = store.create({
          name,
          organizations: ownersOf(flags.organization),
          rights: rightsOf(flags.right ?? [...RIGHTS]),
          expiresMs: flags.expires === undefined ? null : systemClock.now() + flags.expires,
        });
        io.stderr.write(`${lineOf(token)}\nKeep it now: it is shown this once.\n`);
        io.stdout.write(`${secret}\n`);
      },
    );
}

function opened(configFile: string, io: Io) {
  const { config } = loadConfig(configFile, io.env);
  const folder = searchFolder(config);
  return {
    tokens: openTokens(join(folder, "tokens"), systemClock.now),
    accesses: openAccesses(config, systemClock),
  };
}

function ownersOf(given: readonly string[]): string[] | null {
  if (given.length === 1 && given[0] === "all") return null;
  const owners = given.map((one) => one.toLowerCase());
  const wrong = owners.find((owner) => !OWNER.test(owner));
  if (wrong !== undefined)
    throw new UsageError(
      `--organization ${wrong}: write ids of 24 hexadecimal digits, provider:ID for a portal, or all by itself.`,
    );
  return owners;
}

function rightsOf(given: readonly string[]): Right[] {
  return given.map((one) => {
    if ((RIGHTS as readonly string[]).includes(one)) return one as Right;
    const near = closestOf(one, RIGHTS);
    throw new UsageError(
      `--right ${one}: the rights are ${RIGHTS.join(", ")}${near === undefined ? "" : `; did you mean ${near}?`}`,
    );
  });
}

function lineOf({ id, name, organizations, rights, createdMs, expiresMs, revokedMs }: Token): string {
  const day = (ms: number) => new Date(ms).toISOString().slice(0, 10);
  const isOver = expiresMs !== null && expiresMs <= systemClock.now();
  const state =
    revokedMs !== null
      ? `revoked ${day(revokedMs)}`
      : expiresMs === null
        ? "valid until revoked"
        : `${isOver ? "expired" : "valid until"} ${day(expiresMs)}`;
  const whose = organizations === null ? "all organizations" : organizations.join(",");
  return printable(`${id}  ${name}  ${rights.join("+")}  ${whose}  made ${day(createdMs)}  ${state}`);
}
