import { hash } from "node:crypto";

/*
 * Merkle trees of RFC 6962, section 2.1, with SHA-256.
 *
 *   leaf  = SHA-256(0x00 || data)
 *   node  = SHA-256(0x01 || left || right)
 *   empty = SHA-256 of nothing
 *
 * A verifier takes tree sizes from a signed or hashed parent, never from the proof (A16).
 */

export const HASH_BYTES = 32;
export const EMPTY_ROOT: Buffer = hash("sha256", "", "buffer");

/** The hash of a leaf whose data is the concatenation of `parts`. */
export function leafHash(...parts: readonly Uint8Array[]): Buffer {
  return hash("sha256", Buffer.concat([LEAF, ...parts]), "buffer");
}

function nodeHash(left: Uint8Array, right: Uint8Array): Buffer {
  const input = nodeInput();
  input.set(left, 1);
  input.set(right, 1 + HASH_BYTES);
  return hash("sha256", input, "buffer");
}

function nodeInput(): Buffer {
  const input = Buffer.allocUnsafe(1 + 2 * HASH_BYTES);
  input[0] = 1;
  return input;
}

const LEAF = Buffer.from([0]);

/** A hash as text of 32 Latin-1 characters. Node makes one in half the time of a Buffer. */
export type HashText = string;

export interface TreeBuilder {
  readonly size: number;
  append(leaf: Uint8Array | HashText): void;
  root(): Buffer;
}

/** Takes leaf hashes one by one; memory grows with the logarithm of the size. */
export function createTree(): TreeBuilder {
  // The roots of the complete subtrees from left to right: one for each bit that is set in the size.
  const roots: HashText[] = [];
  const input = nodeInput();
  let size = 0;
  const nodeOf = (left: HashText, right: HashText): HashText => {
    input.write(left, 1, "latin1");
    input.write(right, 1 + HASH_BYTES, "latin1");
    return hash("sha256", input, "binary");
  };
  return {
    get size() {
      return size;
    },
    append(leaf) {
      let node = typeof leaf === "string" ? leaf : textOf(leaf);
      for (let left = size; left % 2 === 1; left = (left - 1) / 2) node = nodeOf(roots.pop()!, node);
      roots.push(node);
      size++;
    },
    root() {
      const root = roots.reduceRight<HashText | undefined>(
        (right, left) => (right ? nodeOf(left, right) : left),
        undefined,
      );
      return root === undefined ? Buffer.from(EMPTY_ROOT) : Buffer.from(root, "latin1");
    },
  };
}

function textOf(bytes: Uint8Array): HashText {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
}

/** Leaf hashes side by side in one buffer. */
export interface Leaves {
  readonly size: number;
  at(index: number): Uint8Array;
}

export function leavesOf(hashes: Uint8Array): Leaves {
  return {
    size: hashes.length / HASH_BYTES,
    at: (index) => hashes.subarray(index * HASH_BYTES, (index + 1) * HASH_BYTES),
  };
}

export function rootOf(leaves: Leaves, from = 0, to: number = leaves.size): Buffer {
  const tree = createTree();
  for (let index = from; index < to; index++) tree.append(leaves.at(index));
  return tree.root();
}

export function inclusionProof(leaves: Leaves, index: number, size: number = leaves.size): Buffer[] {
  if (!(index >= 0 && index < size && size <= leaves.size))
    throw new RangeError(`There is no leaf ${index} in a tree of ${size}.`);
  const proof: Buffer[] = [];
  let [from, to] = [0, size];
  while (to - from > 1) {
    const middle = from + splitOf(to - from);
    if (index < middle) {
      proof.push(rootOf(leaves, middle, to));
      to = middle;
    } else {
      proof.push(rootOf(leaves, from, middle));
      from = middle;
    }
  }
  return proof.reverse();
}

export function consistencyProof(leaves: Leaves, oldSize: number, size: number = leaves.size): Buffer[] {
  if (!(oldSize >= 0 && oldSize <= size && size <= leaves.size))
    throw new RangeError(`A tree of ${size} has no earlier size ${oldSize}.`);
  if (oldSize === 0 || oldSize === size) return [];
  const proof: Buffer[] = [];
  let [from, to] = [0, size];
  // While the old tree is a complete subtree of what was passed, its root is known to the verifier.
  let isKnown = true;
  while (oldSize < to) {
    const middle = from + splitOf(to - from);
    if (oldSize <= middle) {
      proof.push(rootOf(leaves, middle, to));
      to = middle;
    } else {
      proof.push(rootOf(leaves, from, middle));
      from = middle;
      isKnown = false;
    }
  }
  if (!isKnown) proof.push(rootOf(leaves, from, to));
  return proof.reverse();
}

/** The largest power of two below `size`. */
function splitOf(size: number): number {
  let split = 1;
  while (split * 2 < size) split *= 2;
  return split;
}

export function verifyInclusion(
  index: number,
  size: number,
  leaf: Uint8Array,
  proof: readonly Uint8Array[],
  root: Uint8Array,
): boolean {
  if (!isSize(index) || !isSize(size) || index >= size || !areHashes([leaf, root, ...proof])) return false;
  let [at, last] = [index, size - 1];
  let node = leaf;
  for (const sibling of proof) {
    if (last === 0) return false;
    if (at % 2 === 1 || at === last) {
      node = nodeHash(sibling, node);
      while (at % 2 === 0 && at !== 0) [at, last] = [at / 2, half(last)];
    } else node = nodeHash(node, sibling);
    [at, last] = [half(at), half(last)];
  }
  return last === 0 && Buffer.compare(node, root) === 0;
}

/**
 * Whether the tree of `size` begins with the tree of `oldSize`. The empty tree needs no proof, and none is
 * accepted for it: a caller that starts from nothing has nothing to compare.
 */
export function verifyConsistency(
  oldSize: number,
  size: number,
  oldRoot: Uint8Array,
  root: Uint8Array,
  proof: readonly Uint8Array[],
): boolean {
  if (!isSize(oldSize) || !isSize(size) || oldSize === 0 || oldSize > size) return false;
  if (oldSize === size) return proof.length === 0 && Buffer.compare(oldRoot, root) === 0;
  if (!areHashes([oldRoot, root, ...proof])) return false;
  let [at, last] = [oldSize - 1, size - 1];
  while (at % 2 === 1) [at, last] = [half(at), half(last)];
  const nodes = at === 0 ? [oldRoot, ...proof] : proof;
  if (nodes.length === 0) return false;
  let [oldNode, node] = [nodes[0]!, nodes[0]!];
  for (const sibling of nodes.slice(1)) {
    if (last === 0) return false;
    if (at % 2 === 1 || at === last) {
      oldNode = nodeHash(sibling, oldNode);
      node = nodeHash(sibling, node);
      while (at % 2 === 0 && at !== 0) [at, last] = [at / 2, half(last)];
    } else node = nodeHash(node, sibling);
    [at, last] = [half(at), half(last)];
  }
  return last === 0 && Buffer.compare(oldNode, oldRoot) === 0 && Buffer.compare(node, root) === 0;
}

/** Not `>> 1`: sizes may exceed 32 bits. */
const half = (value: number) => Math.floor(value / 2);
const isSize = (value: number) => Number.isSafeInteger(value) && value >= 0;
const areHashes = (hashes: readonly Uint8Array[]) => hashes.every(({ length }) => length === HASH_BYTES);
