import { hash } from "node:crypto";
import { z } from "zod";

/** One of `count` processes, counted from 0, that share the organizations of one config. */
export interface Shard {
  readonly index: number;
  readonly count: number;
}

/** The most shards that a config may name. */
const SHARDS_MAX = 1024;
const HASH_BYTES = 6;

/**
 * The share of an organization, from 0 to `count` - 1: the first 48 bits of the SHA-256 of its lower-cased id,
 * modulo `count`. State files are split by it, so it must never change.
 */
export function shareOf(organization: string, count: number): number {
  const digest = Buffer.from(hash("sha256", organization.toLowerCase(), "hex"), "hex");
  return digest.readUIntBE(0, HASH_BYTES) % count;
}

/**
 * Whether the shard reads this organization. A provider's portal and a key's own organization, whose id no
 * config names, are null: they belong to share 0.
 */
export function ownsOrganization(shard: Shard | undefined, organization: string | null): boolean {
  if (shard === undefined) return true;
  if (organization === null || organization === "") return shard.index === 0;
  return shareOf(organization, shard.count) === shard.index;
}

export function shardText({ index, count }: Shard): string {
  return `${index}/${count}`;
}

/** For names in file systems, stores and Kafka. */
export function shardLabel({ index, count }: Shard): string {
  return `shard-${index}-of-${count}`;
}

/** `3/16`, counted from 0; undefined for anything else. */
export function parseShard(text: string): Shard | undefined {
  const match = /^(\d{1,4})\/(\d{1,4})$/.exec(text);
  if (match === null) return undefined;
  const shard = { index: Number(match[1]), count: Number(match[2]) };
  return shard.count >= 1 && shard.count <= SHARDS_MAX && shard.index < shard.count ? shard : undefined;
}

/** As the config has it: `auto` leaves the index to the environment. */
export interface ShardSetting {
  readonly index: number | "auto";
  readonly count: number;
}

export const shardSchema = z
  .string()
  .refine((text) => settingOf(text) !== undefined, {
    error: `write i/n such as 0/3, where i counts from 0 and n is at most ${SHARDS_MAX}, or auto/n`,
  })
  .transform((text) => settingOf(text)!)
  .meta({
    description:
      "`i/n`: this process reads share i of n of the organizations, counted from 0. `auto/n` takes i from the number at the end of TIDEMARK_SHARD, or else of the host name, as a StatefulSet numbers its pods. See docs/shards.md.",
  });

function settingOf(text: string): ShardSetting | undefined {
  const auto = /^auto\/(\d{1,4})$/.exec(text);
  if (auto === null) return parseShard(text);
  const count = Number(auto[1]);
  return count >= 1 && count <= SHARDS_MAX ? { index: "auto", count } : undefined;
}

/** Gives the shard, or a sentence that says why it cannot be known. */
export function resolveShard(
  { index, count }: ShardSetting,
  env: Readonly<Record<string, string | undefined>>,
  hostName: string,
): Shard | string {
  if (index !== "auto") return { index, count };
  const isGiven = (env.TIDEMARK_SHARD ?? "") !== "";
  const source = isGiven ? "TIDEMARK_SHARD" : "the host name";
  const text = isGiven ? env.TIDEMARK_SHARD! : hostName;
  const number = /(\d+)$/.exec(text)?.[1];
  if (number === undefined)
    return `${source} is ${JSON.stringify(text)}, which does not end with a number: set TIDEMARK_SHARD to a number from 0 to ${count - 1}`;
  if (Number(number) >= count)
    return `${source} is ${JSON.stringify(text)}, but shards count from 0 to ${count - 1}`;
  return { index: Number(number), count };
}

/** Numbers of lanes as `0-3, 7`. */
export function rangesText(ascending: readonly number[]): string {
  const ranges: { readonly from: number; to: number }[] = [];
  for (const number of ascending) {
    const last = ranges.at(-1);
    if (last?.to === number - 1) last.to = number;
    else ranges.push({ from: number, to: number });
  }
  return ranges.map(({ from, to }) => (from === to ? `${from}` : `${from}-${to}`)).join(", ");
}

/** Numbers of one lane among those of all lanes. */
const LANES_MAX = 1024;

export function numberInAll(lane: number | undefined, id: number): number {
  return lane === undefined ? id : id * LANES_MAX + lane;
}

export function numberInLane(all: number): { readonly lane: number; readonly id: number } {
  return { lane: all % LANES_MAX, id: Math.floor(all / LANES_MAX) };
}

/** Numbers of the lane below this are those whose numbers among all lanes are below `all`. */
export function boundInLane(lane: number, all: number): number {
  return Math.ceil((all - lane) / LANES_MAX);
}
