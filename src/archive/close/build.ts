import { hash } from "node:crypto";
import { closeSync, fsyncSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { type ArchivePage, archiveOwner, type Claim, type Plan } from "../../core/archive.ts";
import type { PartFiles } from "../log/leaf.ts";
import { createTree } from "../log/tree.ts";
import { CODEC, createDataFile, createFrameMemory, type FrameMemory } from "../part/data-file.ts";
import { lineNonceOf } from "../part/hashing.ts";
import { encodeManifest, entryOf, type Line, type ManifestEntry } from "../part/manifest.ts";
import { createSpool, type Spool, type SpooledEvent } from "./spool.ts";

/** A part whose files are complete on the local disk, under names that carry the hash of their bytes (A12). */
export interface Built {
  readonly files: PartFiles;
  readonly dataFile: string;
  readonly manifestFile: string;
  readonly incomplete: number;
  /** Organizations with a stretch that is missing. */
  readonly gaps: number;
  /** Organizations for which the service returned or counted another number of events. */
  readonly differing?: number;
  /** Events that erasures kept out, by the erasure's salted wording. */
  readonly leftOut?: readonly LeftOut[];
  /** The erasures and holds that it was built under. */
  readonly rules?: string;
}

export interface LeftOut {
  readonly reason: string;
  readonly events: number;
}

export interface BuildSource {
  pagesOf(plan: number): readonly number[];
  page(number: number): Promise<ArchivePage>;
  erasureRules(): string;
}

/** Polling and delivery have their turn after so many events or bytes: these take some milliseconds. */
const TURN_EVENTS = 250;
const TURN_BYTES = 500_000;

/** Counts the work since the last turn. */
function createTurns() {
  let [events, bytes] = [0, 0];
  return {
    isOver(size: number): boolean {
      events++;
      bytes += size;
      return events > TURN_EVENTS || bytes > TURN_BYTES;
    },
    async others(): Promise<void> {
      await setImmediate();
      [events, bytes] = [0, 0];
    },
  };
}

/** Builds the files of several parts with one pass over their pages. Nothing is written to the store. */
export async function buildParts(
  plans: readonly Plan[],
  source: BuildSource,
  folder: string,
  signal: AbortSignal,
): Promise<ReadonlyMap<number, Built>> {
  const spool = createSpool(join(folder, `spool-${plans[0]!.id}`));
  try {
    const rules = source.erasureRules();
    const groups = await spoolPlans(plans, source, spool, signal);
    const built = new Map<number, Built>();
    const frames = createFrameMemory(CODEC);
    const groupsOf = spool.groups()[Symbol.iterator]();
    let next = groupsOf.next();
    for (const [at, plan] of plans.entries()) {
      signal.throwIfAborted();
      const writer = createPartWriter(plan, folder, frames);
      try {
        for (const [index, claim] of plan.organizations.entries()) {
          const isNext = !next.done && next.value.group === groups.start[at]! + index;
          await writer.add(
            claim,
            isNext ? next.value!.events : [],
            groups.leftOut.has(plan.id, claim.organization),
          );
          if (isNext) next = groupsOf.next();
        }
        built.set(plan.id, { ...writer.finish(), leftOut: groups.leftOut.of(plan.id), rules });
      } catch (error) {
        // An open file would keep its space on a full disk, also after it was removed.
        writer.abort();
        throw error;
      }
    }
    return built;
  } finally {
    spool.close();
  }
}

/** Groups are numbered by plan and, in a plan, by the order of its organizations. */
async function spoolPlans(plans: readonly Plan[], source: BuildSource, spool: Spool, signal: AbortSignal) {
  const start: number[] = [];
  const groupOf = new Map<number, Map<string, number>>();
  const pages = new Set<number>();
  const leftOut = createLeftOut();
  let groups = 0;
  for (const plan of plans) {
    start.push(groups);
    groupOf.set(plan.id, new Map(plan.organizations.map(({ organization }) => [organization, groups++])));
    for (const page of source.pagesOf(plan.id)) pages.add(page);
  }
  for (const number of [...pages].sort((a, b) => a - b)) {
    signal.throwIfAborted();
    const page = await source.page(number);
    try {
      await spoolPage(page, groupOf, spool, leftOut);
    } finally {
      page.release();
    }
  }
  return { start, leftOut };
}

/** Counts by plan and reason, and whose events they are. */
function createLeftOut() {
  const counts = new Map<number, Map<string, number>>();
  const owners = new Set<string>();
  return {
    add(plan: number, reason: string, owner: string): void {
      const own = counts.get(plan) ?? new Map<string, number>();
      counts.set(plan, own.set(reason, (own.get(reason) ?? 0) + 1));
      owners.add(`${plan} ${owner}`);
    },
    has: (plan: number, owner: string): boolean => owners.has(`${plan} ${owner}`),
    of: (plan: number): LeftOut[] =>
      [...(counts.get(plan) ?? [])].map(([reason, events]) => ({ reason, events })),
  };
}

async function spoolPage(
  page: ArchivePage,
  groupOf: ReadonlyMap<number, ReadonlyMap<string, number>>,
  spool: Spool,
  leftOut: ReturnType<typeof createLeftOut>,
): Promise<void> {
  const turns = createTurns();
  await turns.others();
  for (let index = 0; index < page.count; index++) {
    const event = page.event(index);
    if (turns.isOver(event.size)) await turns.others();
    const owner = archiveOwner(event.organization, event.provider, event.account);
    const plan = page.planOf(owner, event);
    const group = plan === undefined ? undefined : groupOf.get(plan)?.get(owner);
    if (group === undefined) continue;
    const reason = page.erasedBy(owner, event);
    if (reason === undefined) spool.add(group, event, page.isChanged);
    else leftOut.add(plan!, reason, owner);
  }
}

function createPartWriter(plan: Plan, folder: string, frames: FrameMemory) {
  const dataFile = join(folder, `plan-${plan.id}.zst`);
  const data = createDataFile(dataFile, CODEC, frames);
  const tree = createTree();
  const entries: ManifestEntry[] = [];
  const turns = createTurns();
  let [events, rawBytes, incomplete, gaps, differing] = [0, 0, 0, 0, 0];
  return {
    /** `isErased`: an erasure keeps events of this organization out, which explains a difference. */
    async add(claim: Claim, spooled: Iterable<SpooledEvent>, isErased: boolean): Promise<void> {
      const secret = organizationSecret(plan, claim.organization);
      data.begin({ kind: "secret", secret });
      let [first, last]: [string | null, string | null] = [null, null];
      let changed = 0;
      await turns.others();
      for (const event of spooled) {
        if (turns.isOver(event.slice.length)) await turns.others();
        data.event(event.slice, event.identity);
        if (event.timestamp.length > 0) {
          last = event.timestamp.toString();
          first ??= last;
        }
        if (event.isChanged) changed++;
      }
      const facts = await data.end();
      const line: Line = { ...claimOf(plan, claim, facts.held), ...facts, first, last, changed };
      const entry = entryOf(line, lineNonceOf(secret));
      entries.push(entry);
      tree.append(Buffer.from(entry.leaf, "hex"));
      events += facts.events;
      rawBytes += facts.raw_bytes;
      if (line.state !== "complete" && line.state !== "addition") incomplete++;
      if (line.missing.length > 0) gaps++;
      if (line.state === "differs" && !isErased) differing++;
    },
    finish(): Built {
      const whole = data.finish();
      const manifest = encodeManifest(entries);
      const sha256 = hash("sha256", manifest, "hex");
      const manifestFile = join(folder, `plan-${plan.id}.jsonl`);
      writeDurably(manifestFile, manifest);
      const name = `${plan.day.replaceAll("-", "/")}.${plan.part}`;
      const files: PartFiles = {
        day: plan.day,
        part: plan.part,
        class: plan.class,
        data: `events/${name}.${whole.sha256.slice(0, 8)}.jsonl.zst`,
        data_bytes: whole.bytes,
        data_sha256: whole.sha256,
        manifest: `manifests/${name}.${sha256.slice(0, 8)}.jsonl`,
        manifest_bytes: manifest.length,
        manifest_sha256: sha256,
        lines: entries.length,
        lines_root: tree.root().toString("hex"),
        events,
        raw_bytes: rawBytes,
      };
      return { files, dataFile, manifestFile, incomplete, gaps, differing };
    },
    abort: () => data.abort(),
  };
}

/** Different for each organization, and gone with the plan's seed once the part is in the log. */
export function organizationSecret(plan: Pick<Plan, "seed">, organization: string): Buffer {
  return hash(
    "sha256",
    Buffer.concat([Buffer.from("tidemark/secret-of/v1\n"), plan.seed, Buffer.from(organization)]),
    "buffer",
  );
}

/** The claim of the line about completeness (A10); `held` was counted from the file. */
export function claimOf(plan: Pick<Plan, "kind" | "day" | "part" | "class">, claim: Claim, held: number) {
  const isAddition = plan.kind !== "day";
  const returned = !isAddition && claim.matches ? claim.events : null;
  const missing = claim.missing.map(({ fromMs, toMs, reason }) => ({
    from: new Date(fromMs).toISOString(),
    to: new Date(toMs).toISOString(),
    reason,
  }));
  const state = isAddition ? ("addition" as const) : stateOf(claim, returned, held);
  return {
    organization: claim.organization,
    day: plan.day,
    part: plan.part,
    class: plan.class,
    accounts: [...claim.accounts],
    returned,
    asked: claim.askedMs === null || isAddition ? null : new Date(claim.askedMs).toISOString(),
    counted: isAddition ? null : (claim.counted ?? null),
    check: isAddition ? null : checkOf(claim),
    late: plan.kind === "late" ? held : 0,
    state,
    missing,
  };
}

/** The second look: identities where a later pass compared them, otherwise the service's count. */
function checkOf({ compared, counted }: Claim) {
  if (compared) return "identities" as const;
  return counted == null ? null : ("count" as const);
}

function stateOf(claim: Claim, returned: number | null, held: number) {
  if (claim.missing.length > 0) return "missing" as const;
  if (checkOf(claim) === null) return "unchecked" as const;
  const isCounted = claim.counted == null || claim.counted === held;
  return returned === held && isCounted ? ("complete" as const) : ("differs" as const);
}

function writeDurably(path: string, bytes: Uint8Array): void {
  const fd = openSync(path, "w", 0o600);
  try {
    for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

export function removeBuilt(built: Pick<Built, "dataFile" | "manifestFile">): void {
  rmSync(built.dataFile, { force: true });
  rmSync(built.manifestFile, { force: true });
}
