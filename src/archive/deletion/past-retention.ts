import { UsageError } from "../../core/errors.ts";
import { type ArchiveConfig, classOf } from "../config.ts";
import type { CurrentPart } from "../log/current-parts.ts";
import type { Line } from "../part/manifest.ts";
import { keepOf, keptUntilMs } from "../retention.ts";

type Policy = Pick<ArchiveConfig, "keep" | "classes">;

/** The retention of a class: as `keep` in the config, and what it means for a day. */
interface Retention {
  readonly class: string;
  readonly keep: string;
  readonly untilMs: number;
}

/**
 * How long a line is kept: the longer time of the class that its part was closed with, and of the class that its
 * organization has now. An organization may have got its class after the day was closed. It has the class of an
 * account by the accounts that the day was closed with, and by `accounts` that see it otherwise.
 */
export function retentionOf(
  config: Policy,
  { leaf }: Pick<CurrentPart, "leaf">,
  line?: Line,
  accounts: readonly string[] = [],
): Retention {
  const own = retentionIn(config, leaf.class, leaf.day);
  if (line === undefined) return own;
  const { organization, accounts: asked } = line;
  const names = [
    classOf(config, organization, asked),
    classOf(config, organization, [...asked, ...accounts]),
  ];
  return longest([own, ...names.map((name) => retentionIn(config, name, leaf.day))]);
}

/** A class may have the name of the default, and two may have one name: the longer time counts. */
function retentionIn(config: Policy, name: string, day: string): Retention {
  const named = config.classes.filter((one) => one.name === name).map(({ keep }) => keep);
  const keeps = name === "default" || named.length === 0 ? [config.keep, ...named] : named;
  return longest(keeps.map((keep) => ({ class: name, keep, untilMs: keptUntilMs(day, keepOf(keep)!) })));
}

function longest(list: readonly Retention[]): Retention {
  return list.reduce((one, other) => (other.untilMs > one.untilMs ? other : one));
}

/** Classes of closed parts that the config does not have: nothing says how long those parts are kept. */
export function unknownClasses(
  { classes }: Pick<Policy, "classes">,
  parts: readonly Pick<CurrentPart, "leaf" | "files">[],
): string[] {
  const known = new Set(["default", ...classes.map(({ name }) => name)]);
  const used = parts.flatMap(({ leaf, files }) => (files === undefined ? [] : [leaf.class]));
  return [...new Set(used)].filter((name) => !known.has(name)).sort();
}

export function unknownClassText(names: readonly string[]): string {
  return `The archive has days of a retention class that is not in the config: ${names.join(", ")}. So it is not known how long they are kept, and nothing is pruned. Put the class back under \`classes\` with its name and its \`keep\`; it needs no organizations.`;
}

export function refuseUnknownClasses(config: Policy, parts: readonly CurrentPart[]): void {
  const names = unknownClasses(config, parts);
  if (names.length > 0) throw new UsageError(unknownClassText(names));
}
