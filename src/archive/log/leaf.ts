import { z } from "zod";
import { textPath } from "./texts.ts";

/*
 * The leaves of the log: JSON objects with their keys in the order below, at most 64 KB. The first key is the
 * label of this level (A16); origin and index make each leaf unique to its place.
 */

const LEAF_TYPE = "tidemark/log-leaf/v1";

const hex = z.string().regex(/^[0-9a-f]{64}$/);
const count = z.int().min(0);
const day = z.string().regex(/^\d{4}-\d\d-\d\d$/);
const name = z.string().min(1).max(500);

/** A data file and its manifest, as the log names them. */
const part = {
  day,
  part: name,
  class: name,
  data: name,
  data_bytes: count,
  data_sha256: hex,
  manifest: name,
  manifest_bytes: count,
  manifest_sha256: hex,
  lines: count,
  lines_root: hex,
  events: count,
  raw_bytes: count,
};

const kinds = {
  /** A part of a day: the organizations that were sealed. */
  day: z.strictObject({ kind: z.literal("day"), ...part, incomplete: count }),
  /** Events that arrived on one day for days that were closed before. */
  late: z.strictObject({ kind: z.literal("late"), ...part, incomplete: count }),
  /** Events that arrived on one day without a usable time. */
  undated: z.strictObject({ kind: z.literal("undated"), ...part, incomplete: count }),
  /** The service forgot these before they were read; the lines of that manifest say which. */
  gap: z.strictObject({ kind: z.literal("gap"), day, part: name, manifest: name, organizations: count }),
  /** Closed days were compared with the service. */
  reconcile: z.strictObject({
    kind: z.literal("reconcile"),
    from: day,
    to: day,
    asked: name,
    compared: z.literal("identities"),
    /** Days of organizations that were compared, and of how many organizations. */
    days: count,
    organizations: count,
    returned: count,
    held: count,
    erased: count,
    /** Held, and no longer returned by the service. */
    only_held: count,
    missing: count,
  }),
  hold: z.strictObject({
    kind: z.literal("hold"),
    hold: name,
    case_hash: hex,
    organizations_hash: hex,
    from: day.nullable(),
    to: day.nullable(),
  }),
  release: z.strictObject({ kind: z.literal("release"), hold: name, case_hash: hex }),
  /** The file is gone, after its time; where other lines of it stay, `replacement` holds them. */
  prune: z.strictObject({
    kind: z.literal("prune"),
    leaf: count,
    policy: name,
    removed_lines: count,
    replacement: z.strictObject(part).nullable(),
    /** No answer of the service confirmed the clock that the time was judged by. */
    clock: z.literal("unconfirmed").optional(),
  }),
  erase: z.strictObject({
    kind: z.literal("erase"),
    leaf: count,
    reason_hash: hex,
    removed_lines: count,
    removed_events: count,
    replacement: z.strictObject(part).nullable(),
  }),
  /** A witness that is asked to cosign from here on. */
  witness: z.strictObject({ kind: z.literal("witness"), key: name }),
  /** A witness that is no longer asked: the operator took it out of the config. */
  witness_end: z.strictObject({ kind: z.literal("witness_end"), key: name }),
  policy: z.strictObject({ kind: z.literal("policy"), policy_sha256: hex }),
  /** A new signing key. The checkpoint of size index + 1 is signed by the old and the new key (A20). */
  key: z.strictObject({ kind: z.literal("key"), key: name, previous: name.nullable() }),
} as const;

const body = z.discriminatedUnion("kind", Object.values(kinds) as never) as z.ZodType<LeafBody>;
/** `size` is that of the checkpoint which first covers the leaf: it says which numbered checkpoints there are. */
const head = z.object({
  type: z.literal(LEAF_TYPE),
  origin: name,
  index: count,
  size: count,
  time: z.iso.datetime(),
});

export type LeafKind = keyof typeof kinds;
export type LeafBody = { [Kind in LeafKind]: z.output<(typeof kinds)[Kind]> }[LeafKind];
export type LeafOf<Kind extends LeafKind> = z.output<(typeof kinds)[Kind]>;
export type PartLeaf = LeafOf<"day"> | LeafOf<"late"> | LeafOf<"undated">;
export type PartFiles = Omit<LeafOf<"day">, "kind" | "incomplete">;
export type LogLeaf = z.output<typeof head> & LeafBody;

export interface LeafPlace {
  readonly origin: string;
  readonly index: number;
  readonly size: number;
  readonly timeMs: number;
}

export function encodeLeaf({ origin, index, size, timeMs }: LeafPlace, content: LeafBody): Buffer {
  const time = new Date(timeMs).toISOString();
  return Buffer.from(JSON.stringify({ type: LEAF_TYPE, origin, index, size, time, ...inOrder(content) }));
}

/** Throws unless these are the bytes that `encodeLeaf` gives for this place in the log. */
export function parseLeaf(bytes: Uint8Array, origin: string, index: number): LogLeaf {
  const json: unknown = JSON.parse(Buffer.from(bytes).toString("utf8"));
  const { type, origin: own, index: at, size, time, ...rest } = json as Record<string, unknown>;
  const start = head.parse({ type, origin: own, index: at, size, time });
  if (start.origin !== origin || start.index !== index || start.size <= index)
    throw new Error(`it is entry ${start.index} of "${start.origin}"`);
  const content = body.parse(rest);
  if (!encodeLeaf({ ...start, timeMs: Date.parse(start.time) }, content).equals(bytes))
    throw new Error("its bytes are not in the fixed order");
  return { ...start, ...content };
}

export function isPart<Any extends LeafBody>(leaf: Any): leaf is Any & PartLeaf {
  return leaf.kind === "day" || leaf.kind === "late" || leaf.kind === "undated";
}

/** The files that a leaf names: data files, manifests, and wordings beside the log. */
export function filesNamedBy(leaf: LeafBody): string[] {
  const parts = [isPart(leaf) ? leaf : null, "replacement" in leaf ? leaf.replacement : null];
  const digest = textNamedBy(leaf);
  return [
    ...parts.flatMap((files) => (files === null ? [] : [files.data, files.manifest])),
    ...(digest === undefined ? [] : [textPath(digest)]),
  ];
}

/** The hash of the wording of a case or a reason. */
export function textNamedBy(leaf: LeafBody): string | undefined {
  return "reason_hash" in leaf ? leaf.reason_hash : "case_hash" in leaf ? leaf.case_hash : undefined;
}

/** zod gives keys in the order of the schema. */
function inOrder(content: LeafBody): LeafBody {
  return body.parse(content);
}
