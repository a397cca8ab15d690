import { type Command, InvalidArgumentError } from "commander";
import { sizeOf } from "../core/schema.ts";
import { durationMsOf, timestampMsOf } from "../core/time.ts";

const CONFIG_DEFAULT = "tidemark.yaml";

/** Every command that works with a config has this option, and an example in its help. */
export function withConfig(command: Command, example: string): Command {
  return command
    .option("-c, --config <file>", "the config file", CONFIG_DEFAULT)
    .addHelpText("after", `\nExample:\n  $ ${example}`);
}

/** A time, or how long ago: 2026-01-31T00:00:00Z, 2026-01-31 or 7d. */
export function timeOption(text: string): number {
  const agoMs = durationMsOf(text);
  if (agoMs !== undefined) return Date.now() - agoMs;
  const atMs = timestampMsOf(/^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : text);
  if (atMs === undefined)
    throw new InvalidArgumentError(
      "Write a time such as 2026-01-31T00:00:00Z or 2026-01-31, or how long ago, such as 7d.",
    );
  return atMs;
}

export function listOption(text: string, before: readonly string[] | undefined): string[] {
  return [...(before ?? []), ...text.split(",").filter((part) => part !== "")];
}

/** A whole number above 0. */
export function countOption(text: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text)) throw new InvalidArgumentError("Write a whole number above 0.");
  return Number(text);
}

/** A size such as 500MB or 20GB. */
export function sizeOption(text: string): number {
  const size = sizeOf(text);
  if (size === undefined) throw new InvalidArgumentError("Write a size such as 500MB or 20GB.");
  return size;
}

/** Milliseconds of a duration such as 30s or 10m. */
export function durationOption(text: string): number {
  const ms = durationMsOf(text);
  if (ms === undefined || ms < 1) throw new InvalidArgumentError("Write a duration such as 30s or 10m.");
  return ms;
}
