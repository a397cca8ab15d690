import { hash } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { signCheckpoint } from "../../src/archive/log/checkpoint.ts";
import { encodeLeaf, isPart, type LeafBody, type PartLeaf, parseLeaf } from "../../src/archive/log/leaf.ts";
import type { Signer } from "../../src/archive/log/note.ts";
import { createTiler } from "../../src/archive/log/tiles.ts";
import { createTree, leafHash, leavesOf, rootOf } from "../../src/archive/log/tree.ts";
import { parseKeyFrame } from "../../src/archive/part/frames.ts";
import { lineNonceOf } from "../../src/archive/part/hashing.ts";
import { encodeManifest, entryOf, type Line, parseManifest } from "../../src/archive/part/manifest.ts";
import { ORIGIN } from "./world.ts";

/* Archives as somebody with the signing key could forge them: wrong in one place, and right everywhere else. */

export interface Forger {
  readonly by: Signer;
  /** The sizes of the checkpoints; one for each entry without them. */
  readonly batches?: readonly number[] | undefined;
  readonly timeMs: number;
}

/** Writes the log of an archive anew over other entries, with tiles, checkpoints and texts that fit. */
export function rebuildLog(
  place: string,
  change: (bodies: LeafBody[]) => LeafBody[],
  { by, batches, timeMs }: Forger,
): void {
  const leaves = readFileSync(join(place, "log/leaves.jsonl"), "utf8")
    .trimEnd()
    .split("\n")
    .map((line, index) => parseLeaf(Buffer.from(line), ORIGIN, index));
  const bodies = change(
    leaves.map(({ type: _t, origin: _o, index: _i, size: _s, time: _m, ...body }) => body as LeafBody),
  );
  const sizes = batches ?? Array.from({ length: bodies.length }, (_, index) => index + 1);
  const own = bodies.map((body, index) =>
    encodeLeaf({ origin: ORIGIN, index, size: sizes.find((size) => size > index)!, timeMs }, body),
  );
  rmSync(join(place, "log"), { recursive: true });
  const write = (path: string, bytes: Uint8Array | string) => {
    mkdirSync(dirname(join(place, path)), { recursive: true });
    writeFileSync(join(place, path), bytes);
  };
  const hashes = leavesOf(Buffer.concat(own.map((entry) => leafHash(entry))));
  const tiler = createTiler(hashes, (index) => own[index]!);
  for (const size of sizes) {
    for (const { path, bytes } of tiler.grow(size)) write(`log/${path}`, bytes);
    const checkpoint = signCheckpoint({ origin: ORIGIN, size, root: rootOf(hashes, 0, size) }, [by]);
    write(`log/checkpoint.${size}`, checkpoint);
    write("log/checkpoint", checkpoint);
  }
  write("log/leaves.jsonl", own.map((entry) => `${entry}\n`).join(""));
  write("keys.txt", bodies.flatMap((body) => (body.kind === "key" ? [`${body.key}\n`] : [])).join(""));
}

export interface PartForgery {
  /** Changes the log entry of the part, after everything else. */
  readonly leaf?: (leaf: PartLeaf) => PartLeaf;
  /** Changes the first line; its hash is made again. */
  readonly line?: (line: Line) => Line;
  /** The hash that the manifest gives for the first line. */
  readonly lineHash?: string;
  readonly data?: (data: Buffer, line: Line) => Buffer;
}

/** Changes the first part of an archive, and every hash above the change so that it fits. */
export function forgePart(place: string, forgery: PartForgery, forger: Forger): void {
  rebuildLog(
    place,
    (bodies) => {
      const at = bodies.findIndex(isPart);
      const bodiesNow = [...bodies];
      bodiesNow[at] = forgeFiles(place, bodies[at] as PartLeaf, forgery);
      return bodiesNow;
    },
    forger,
  );
}

function forgeFiles(place: string, leaf: PartLeaf, forgery: PartForgery): PartLeaf {
  const entries = parseManifest(readFileSync(join(place, leaf.manifest)));
  const [first, ...rest] = entries;
  if (first === undefined || "gone" in first) throw new Error("The part has no line.");
  const before = readFileSync(join(place, leaf.data));
  const key = parseKeyFrame(before.subarray(0, first.line.key_bytes), first.line.events);
  if (key?.kind !== "secret") throw new Error("The part has no secret.");
  const data = forgery.data?.(Buffer.from(before), first.line) ?? before;
  const range = data.subarray(first.line.offset, first.line.offset + first.line.stored_bytes);
  const fitting = { ...first.line, stored_sha256: hash("sha256", range, "hex") };
  const line = forgery.line?.(fitting) ?? fitting;
  const own = entryOf(line, lineNonceOf(key.secret));
  const forged = [{ ...own, leaf: forgery.lineHash ?? own.leaf }, ...rest];
  const manifest = encodeManifest(forged);
  writeFileSync(join(place, leaf.data), data);
  writeFileSync(join(place, leaf.manifest), manifest);
  const tree = createTree();
  for (const entry of forged) tree.append(Buffer.from(entry.leaf, "hex"));
  const now: PartLeaf = {
    ...leaf,
    data_bytes: data.length,
    data_sha256: hash("sha256", data, "hex"),
    manifest_bytes: manifest.length,
    manifest_sha256: hash("sha256", manifest, "hex"),
    lines_root: tree.root().toString("hex"),
  };
  return forgery.leaf?.(now) ?? now;
}
