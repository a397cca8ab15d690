import { z } from "zod";
import { isNamed } from "../../core/archive.ts";
import { parseCheckpoint } from "../log/checkpoint.ts";
import { currentParts } from "../log/current-parts.ts";
import { type LogLeaf, type PartFiles, parseLeaf } from "../log/leaf.ts";
import { isSignedBy, type Verifier } from "../log/note.ts";
import { inclusionProof, leafHash, leavesOf, verifyInclusion } from "../log/tree.ts";
import { archivedEvents } from "../part/events.ts";
import { eventLeaf, lineLeaf } from "../part/hashing.ts";
import { type Line, type ManifestEntry, parseLine } from "../part/manifest.ts";
import { openRange } from "../part/range.ts";
import type { ArchiveStore } from "../store/store.ts";
import { namingLeaf, type ReadLog, readEntries, readLog } from "./read.ts";

/*
 * A proof that one event is in an archive goes through three trees (A15): the event in its line, the line in its
 * manifest, the manifest's log entry in the log. It contains hashes of other leaves and nothing else about them.
 * The sizes of the trees are not in the proof: each is read from the level above (A16).
 */

const hex = z.string().regex(/^[0-9a-f]{64}$/);
const step = { index: z.int().min(0), proof: z.array(hex).max(64) };

const proofSchema = z.strictObject({
  type: z.literal("tidemark/proof/v1"),
  /** Absent in a proof about a whole line. */
  event: z.strictObject({ bytes: z.base64(), nonce: hex, ...step }).optional(),
  line: z.strictObject({ text: z.string(), nonce: hex, ...step }),
  entry: z.strictObject({ text: z.string(), ...step }),
  checkpoint: z.string(),
});
export type Proof = z.output<typeof proofSchema>;

export interface EventQuery {
  /** An event's id, or its identity of 32 hexadecimal digits. */
  readonly event: string;
  readonly organization?: string | undefined;
  readonly day?: string | undefined;
}

/** Every place where the event is; more than one where it was archived again with other bytes. */
export async function proveEvent(store: ArchiveStore, query: EventQuery): Promise<Proof[]> {
  for (let attempt = 1; ; attempt++) {
    const log = await readLog(store);
    try {
      return await proveIn(store, log, query);
    } catch (error) {
      // An erasure may have replaced a part since the log was read. It adds an entry before it removes a file.
      if (attempt === ATTEMPTS || (await readLog(store)).leaves.length === log.leaves.length) throw error;
    }
  }
}

const ATTEMPTS = 5;

async function proveIn(store: ArchiveStore, log: ReadLog, query: EventQuery): Promise<Proof[]> {
  const proofs: Proof[] = [];
  for (const { leaf, files } of currentParts(log.leaves)) {
    if (files === undefined || (query.day !== undefined && leaf.kind === "day" && leaf.day !== query.day))
      continue;
    const entries = await readEntries(store, files);
    for (const [index, entry] of entries.entries()) {
      if (
        "gone" in entry ||
        (query.organization !== undefined && entry.line.organization !== query.organization)
      )
        continue;
      for (const at of await matches(store, files, entry.line, query.event))
        proofs.push(await proveAt(store, log, files, entries, index, at));
    }
  }
  return proofs;
}

/** The proof of one event by the number of its line and its number in the line. */
async function proveAt(
  store: ArchiveStore,
  log: ReadLog,
  files: PartFiles,
  entries: readonly ManifestEntry[],
  lineNumber: number,
  eventNumber: number,
): Promise<Proof> {
  const entry = entries[lineNumber]!;
  if ("gone" in entry) throw new Error("The line was removed.");
  return {
    ...(await lineProof(store, log, files, entries, lineNumber)),
    event: await eventStep(store, files, entry.line, eventNumber),
  };
}

async function matches(store: ArchiveStore, files: PartFiles, line: Line, wanted: string): Promise<number[]> {
  const found: number[] = [];
  const range = await openRange(store, files.data, line);
  for await (const { index, event } of archivedEvents(range, line.organization))
    if (event !== null && isNamed(event, wanted)) found.push(index);
  return found;
}

async function eventStep(
  store: ArchiveStore,
  files: PartFiles,
  line: Line,
  wanted: number,
): Promise<NonNullable<Proof["event"]>> {
  const range = await openRange(store, files.data, line);
  const erased = new Map(line.erased);
  const leaves: Buffer[] = [];
  let bytes = "";
  for await (const { index, slice } of range.slices()) {
    leaves.push(
      slice === null
        ? Buffer.from(erased.get(index)!, "hex")
        : Buffer.from(range.hasher.leaf(index, slice), "latin1"),
    );
    if (index === wanted) bytes = slice!.toString("base64");
  }
  const proof = inclusionProof(leavesOf(Buffer.concat(leaves)), wanted).map((node) => node.toString("hex"));
  return { bytes, nonce: range.hasher.nonce(wanted).toString("hex"), index: wanted, proof };
}

/** The two upper steps: the line in its manifest, the manifest's entry in the log. */
export async function lineProof(
  store: ArchiveStore,
  log: ReadLog,
  files: PartFiles,
  entries: readonly ManifestEntry[],
  index: number,
): Promise<Proof> {
  const entry = entries[index]!;
  if ("gone" in entry) throw new Error("The line was removed.");
  const range = await openRange(store, files.data, entry.line);
  const leaf = namingLeaf(log.leaves, files);
  const toHex = (nodes: readonly Buffer[]) => nodes.map((node) => node.toString("hex"));
  const lines = leavesOf(Buffer.concat(entries.map((one) => Buffer.from(one.leaf, "hex"))));
  return {
    type: "tidemark/proof/v1",
    line: {
      text: entry.bytes.toString("utf8"),
      nonce: range.lineNonce.toString("hex"),
      index,
      proof: toHex(inclusionProof(lines, index)),
    },
    entry: {
      text: log.entries[leaf.index]!.toString("utf8"),
      index: leaf.index,
      proof: toHex(inclusionProof(log.hashes, leaf.index)),
    },
    checkpoint: log.checkpoint.bytes.toString("utf8"),
  };
}

export interface CheckedProof {
  readonly event: Buffer | undefined;
  readonly line: Line;
  readonly leaf: LogLeaf;
  readonly origin: string;
  readonly size: number;
  /** False without a pinned key: the proof only agrees with itself. */
  readonly isPinned: boolean;
}

/** Throws with the step that fails. Needs nothing but the proof and a key. */
export function checkProof(json: unknown, key: Verifier | undefined): CheckedProof {
  const proof = proofSchema.parse(json);
  const checkpoint = parseCheckpoint(Buffer.from(proof.checkpoint));
  if (key !== undefined && !isSignedBy(checkpoint.note, key))
    throw new Error(
      "The checkpoint is not signed by the given key. If the archive's key was changed since, use the newer one.",
    );
  const leafBytes = Buffer.from(proof.entry.text);
  const leaf = parseLeaf(leafBytes, checkpoint.origin, proof.entry.index);
  demand(
    proof.entry,
    checkpoint.size,
    leafHash(leafBytes),
    checkpoint.root,
    "The log entry is not in the log of the checkpoint.",
  );
  const files = "replacement" in leaf ? leaf.replacement : "lines_root" in leaf ? leaf : null;
  if (files === null) throw new Error("The log entry names no manifest.");
  const lineBytes = Buffer.from(proof.line.text);
  const lineHash = lineLeaf(Buffer.from(proof.line.nonce, "hex"), lineBytes);
  demand(
    proof.line,
    files.lines,
    lineHash,
    Buffer.from(files.lines_root, "hex"),
    "The line is not in the manifest of the log entry.",
  );
  const line = parseLine(lineBytes);
  const common = {
    line,
    leaf,
    origin: checkpoint.origin,
    size: checkpoint.size,
    isPinned: key !== undefined,
  };
  if (proof.event === undefined) return { ...common, event: undefined };
  const event = Buffer.from(proof.event.bytes, "base64");
  const eventHash = eventLeaf(Buffer.from(proof.event.nonce, "hex"), event);
  demand(
    proof.event,
    line.events,
    eventHash,
    Buffer.from(line.events_root, "hex"),
    "The event is not in the line.",
  );
  return { ...common, event };
}

function demand(
  at: { index: number; proof: string[] },
  size: number,
  leaf: Buffer,
  root: Buffer,
  message: string,
): void {
  const nodes = at.proof.map((node) => Buffer.from(node, "hex"));
  if (!verifyInclusion(at.index, size, leaf, nodes, root)) throw new Error(message);
}
