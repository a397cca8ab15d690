import { hash, randomBytes } from "node:crypto";
import { mkdirSync, rmSync } from "node:fs";
import { z } from "zod";
import type { ArchiveState } from "../../core/archive.ts";
import type { Clock } from "../../core/clock.ts";
import { UsageError } from "../../core/errors.ts";
import type { Archive } from "../archive.ts";
import type { ArchiveConfig } from "../config.ts";
import { identityOf } from "../evidence/identity.ts";
import { readEntries } from "../evidence/read.ts";
import { type CurrentPart, currentParts } from "../log/current-parts.ts";
import type { LeafBody, PartFiles } from "../log/leaf.ts";
import type { Line } from "../part/manifest.ts";
import { openRange } from "../part/range.ts";
import { keepOf, keptUntilMs } from "../retention.ts";
import { type ArchiveStore, LockedFileError } from "../store/store.ts";
import { type Fate, rewritePart } from "./rewrite.ts";

/*
 * Holds, prunings and erasures. They run one after the other, between turns of closing. A deletion has these steps,
 * each of which can be repeated after a crash:
 *
 *   1. files that a deletion before has left behind are removed
 *   2. holds are read again (A22)
 *   3. where something of a part stays, the part is written again: new data file and manifest go to the store
 *   4. the entry with what was removed, and with the new files, is in a signed checkpoint
 *   5. the old files are removed, with all their versions
 */
export interface Deletions {
  hold(body: NewHold, signal: AbortSignal): Promise<string>;
  release(id: string, signal: AbortSignal): Promise<string>;
  holds(): readonly Hold[];
  prune(dryRun: boolean, signal: AbortSignal): Promise<string>;
  erase(body: Erasure, signal: AbortSignal): Promise<string>;
}

export interface NewHold {
  readonly case: string;
  /** Empty: all. */
  readonly organizations: readonly string[];
  readonly from: string | null;
  readonly to: string | null;
}

export interface Erasure {
  readonly organization: string;
  /** One event by id or identity; undefined: the whole organization. */
  readonly event?: string | undefined;
  readonly from: string | null;
  readonly to: string | null;
  readonly reason: string;
}

const holdSchema = z.object({
  id: z.string(),
  case: z.string(),
  caseHash: z.string(),
  organizations: z.array(z.string()),
  from: z.string().nullable(),
  to: z.string().nullable(),
});
export type Hold = z.output<typeof holdSchema>;

export interface DeletionParts {
  readonly archive: Archive;
  readonly store: ArchiveStore;
  readonly state: ArchiveState;
  readonly config: Pick<ArchiveConfig, "keep" | "classes">;
  readonly clock: Clock;
  readonly workFolder: string;
}

export function createDeletions({
  archive,
  store,
  state,
  config,
  clock,
  workFolder,
}: DeletionParts): Deletions {
  mkdirSync(workFolder, { recursive: true, mode: 0o700 });
  const holds = (): Hold[] => z.array(holdSchema).parse(JSON.parse(state.fact("holds") ?? "[]"));
  const setHolds = (list: readonly Hold[]) => state.setFact("holds", JSON.stringify(list));

  /** The log has a salted hash; the wording is beside it and can be erased (A18). */
  async function storeText(text: object): Promise<string> {
    const bytes = Buffer.from(JSON.stringify({ salt: randomBytes(16).toString("hex"), ...text }));
    const digest = hash("sha256", bytes, "hex");
    await store.create(`texts/${digest}.json`, { bytes });
    return digest;
  }

  function isHeld(line: Line, list: readonly Hold[]): boolean {
    return list.some(
      ({ organizations, from, to }) =>
        (organizations.length === 0 || organizations.includes(line.organization)) && touches(line, from, to),
    );
  }

  async function removeParts(
    parts: readonly CurrentPart[],
    fateOf: (line: Line, index: number) => Promise<Fate>,
    bodyOf: (
      part: CurrentPart,
      removed: { lines: number; events: number },
      replacement: PartFiles | null,
    ) => LeafBody,
    signal: AbortSignal,
  ): Promise<{ parts: number; lines: number; events: number; kept: number }> {
    await removeLeftovers();
    const total = { parts: 0, lines: 0, events: 0, kept: 0 };
    for (const part of parts) {
      signal.throwIfAborted();
      const files = part.files!;
      const fates = new Map<string, Fate>();
      // Read again for every part: a hold that was added meanwhile counts (A22).
      const inForce = holds();
      for (const entry of await readEntries(store, files)) {
        if ("gone" in entry) continue;
        const wanted = await fateOf(entry.line, part.leaf.index);
        const held = wanted !== "keep" && isHeld(entry.line, inForce);
        if (held) total.kept++;
        fates.set(entry.line.organization, held ? "keep" : wanted);
      }
      if ([...fates.values()].every((fate) => fate === "keep")) continue;
      const removed = await replacePart(part, files, fates, bodyOf, signal);
      total.parts++;
      total.lines += removed.lines;
      total.events += removed.events;
    }
    return total;
  }

  async function replacePart(
    part: CurrentPart,
    files: PartFiles,
    fates: ReadonlyMap<string, Fate>,
    bodyOf: (
      part: CurrentPart,
      removed: { lines: number; events: number },
      replacement: PartFiles | null,
    ) => LeafBody,
    signal: AbortSignal,
  ) {
    const entryIndex = archive.leaves().length;
    const rewritten = await rewritePart(
      store,
      files,
      (line) => fates.get(line.organization) ?? "keep",
      entryIndex,
      workFolder,
    );
    const removed = { lines: rewritten.removedLines, events: rewritten.removedEvents };
    if (rewritten.files !== undefined) {
      // Noted first, so that a crash before the entry leaves nothing that the log cannot explain.
      await state.setFact("rewrite", JSON.stringify([rewritten.files.data, rewritten.files.manifest]));
      const { data, data_bytes: length, data_sha256: sha256 } = rewritten.files;
      await store.create(data, { file: rewritten.dataFile, length, sha256 });
      await store.create(rewritten.files.manifest, { bytes: rewritten.manifest });
    }
    rmSync(rewritten.dataFile, { force: true });
    await archive.log.append([{ body: bodyOf(part, removed, rewritten.files ?? null) }], signal);
    await removeFiles([files.data, files.manifest]);
    await state.setFact("rewrite", null);
    return removed;
  }

  async function removeFiles(paths: readonly string[]): Promise<void> {
    const current = new Set(
      currentParts(archive.leaves()).flatMap(({ files }) => (files ? [files.data, files.manifest] : [])),
    );
    for (const path of paths) {
      if (current.has(path)) continue;
      try {
        await store.remove(path);
      } catch (error) {
        if (!(error instanceof LockedFileError)) throw error;
        await addDue(path, error.untilMs);
      }
    }
  }

  /** A locked file goes when its lock ends (A24). */
  async function addDue(path: string, untilMs: number): Promise<void> {
    const due = dueOrders().filter((order) => order.path !== path);
    await state.setFact("due", JSON.stringify([...due, { path, untilMs }]));
  }

  const dueOrders = () => JSON.parse(state.fact("due") ?? "[]") as { path: string; untilMs: number }[];

  /** Files of deletions that a crash interrupted, and files whose lock has ended. */
  async function removeLeftovers(): Promise<void> {
    const named = archive.leaves().flatMap((leaf) => {
      const files = "replacement" in leaf ? leaf.replacement : "data" in leaf ? leaf : null;
      return files === null ? [] : [files.data, files.manifest];
    });
    const orphans = JSON.parse(state.fact("rewrite") ?? "[]") as string[];
    const locked = new Set(
      dueOrders()
        .filter(({ untilMs }) => untilMs > clock.now())
        .map(({ path }) => path),
    );
    await removeFiles([...new Set([...named, ...orphans])].filter((path) => !locked.has(path)));
    await state.setFact("due", JSON.stringify(dueOrders().filter(({ path }) => locked.has(path))));
    await state.setFact("rewrite", null);
  }

  function lockedUntil(): string {
    const due = dueOrders();
    if (due.length === 0) return "";
    const last = Math.max(...due.map(({ untilMs }) => untilMs));
    return ` ${due.length} files are locked by the store until ${new Date(last).toISOString()} at the latest; the order to remove them is recorded, and \`archive prune\` carries it out then.`;
  }

  return {
    holds,
    async hold(body, signal) {
      const caseHash = await storeText({ case: body.case, organizations: body.organizations });
      const id = `hold-${randomBytes(4).toString("hex")}`;
      // In force before it is in the log: a pruning that runs next must see it.
      await setHolds([...holds(), { id, caseHash, ...body, organizations: [...body.organizations] }]);
      const organizationsHash = hash("sha256", `${caseHash} ${body.organizations.join(" ")}`, "hex");
      await archive.log.append(
        [
          {
            body: {
              kind: "hold",
              hold: id,
              case_hash: caseHash,
              organizations_hash: organizationsHash,
              from: body.from,
              to: body.to,
            },
          },
        ],
        signal,
      );
      return id;
    },
    async release(id, signal) {
      const found = holds().find((hold) => hold.id === id);
      if (found === undefined)
        throw new UsageError(`There is no hold "${id}": see \`tidemark archive hold list\`.`);
      await archive.log.append([{ body: { kind: "release", hold: id, case_hash: found.caseHash } }], signal);
      await setHolds(holds().filter((hold) => hold.id !== id));
      return `The hold ${id} is released.`;
    },
    async prune(dryRun, signal) {
      const due = currentParts(archive.leaves()).filter(({ leaf, files }) => {
        const keep = keepOf(config.classes.find(({ name }) => name === leaf.class)?.keep ?? config.keep)!;
        return files !== undefined && keptUntilMs(leaf.day, keep) <= clock.now();
      });
      if (dryRun)
        return `${due.length} parts are past their retention: ${due.map(({ leaf }) => `${leaf.day}.${leaf.part}`).join(", ") || "none"}. Holds are applied when they are pruned.`;
      const total = await removeParts(
        due,
        async () => "gone",
        ({ leaf }, { lines }, replacement) => ({
          kind: "prune",
          leaf: leaf.index,
          policy: config.classes.find(({ name }) => name === leaf.class)?.keep ?? config.keep,
          removed_lines: lines,
          replacement,
        }),
        signal,
      );
      return `${total.parts} parts were pruned, with ${total.lines} days of organizations; ${total.kept} are on hold and stay.${lockedUntil()}`;
    },
    async erase(body, signal) {
      const reasonHash = await storeText({ reason: body.reason });
      const inside = currentParts(archive.leaves()).filter(
        ({ files, leaf }) =>
          files !== undefined &&
          (leaf.kind !== "day" ||
            ((body.from === null || leaf.day >= body.from) && (body.to === null || leaf.day <= body.to))),
      );
      await state.tombstone(
        body.organization,
        body.event === undefined ? null : body.event,
        body.from,
        body.to,
      );
      const total = await removeParts(
        inside,
        async (line, index) =>
          fateOfErased(line, body, store, inside.find(({ leaf }) => leaf.index === index)!.files!),
        ({ leaf }, { lines, events }, replacement) => ({
          kind: "erase",
          leaf: leaf.index,
          reason_hash: reasonHash,
          removed_lines: lines,
          removed_events: events,
          replacement,
        }),
        signal,
      );
      const letters = await state.eraseDeadLetters(body.organization, body.event ?? null);
      return `${total.events} events of ${total.parts} parts were erased, and ${letters} dead letters. ${total.kept > 0 ? `${total.kept} days are on hold and stay. ` : ""}Events that are not closed yet are left out when their day is closed; the journal drops their bytes after that. Copies that sinks have delivered are out of reach: erase them there.${lockedUntil()}`;
    },
  };
}

/** The line's day is inside, or, for additions, its events reach into the time. */
function touches(line: Line, from: string | null, to: string | null): boolean {
  const [first, last] = [line.first?.slice(0, 10) ?? line.day, line.last?.slice(0, 10) ?? line.day];
  return (from === null || last >= from) && (to === null || first <= to);
}

async function fateOfErased(
  line: Line,
  { organization, event, from, to }: Erasure,
  store: ArchiveStore,
  files: PartFiles,
): Promise<Fate> {
  if (line.organization !== organization || !touches(line, from, to)) return "keep";
  if (event === undefined) return "gone";
  const without = new Set<number>();
  for await (const { index, slice } of (await openRange(store, files.data, line)).slices()) {
    if (slice === null) continue;
    const { id } = JSON.parse(slice.toString("utf8")) as { id?: unknown };
    if (String(id ?? "") === event || identityOf(organization, slice) === event) without.add(index);
  }
  return without.size === 0 ? "keep" : { without };
}
