import { basename, dirname } from "node:path";
import type { FileSystem, OpenFile } from "../src/sinks/file/system.ts";
import type { Random } from "./random.ts";

/**
 * The disk of the file sinks, in memory, so that no thread decides the order of things. It knows what a power
 * cut would leave: contents and entries of folders that were not synced are there afterwards, or not, or in part.
 */
export interface Disk {
  /** The calls of one process. `gate` runs before each of them and may fail it or hold it up. */
  systemFor(gate: (path: string, isChange: boolean) => Promise<void>): FileSystem;
  powerCut(random: Random): void;
  /** All files below a folder, by path. */
  files(folder: string): ReadonlyMap<string, Buffer>;
}

interface Node {
  content: Buffer;
  synced: Buffer;
  /** Only folders have entries. */
  entries: Map<string, Node> | undefined;
  syncedEntries: Map<string, Node> | undefined;
}

const BLOCK_BYTES = 512;

export function createDisk(): Disk {
  let root = makeNode(true);

  function find(path: string): Node | undefined {
    let node: Node | undefined = root;
    for (const part of path.split("/")) if (part !== "") node = node?.entries?.get(part);
    return node;
  }
  const need = (path: string) => find(path) ?? fail("ENOENT", path);
  const entriesOf = (path: string) => need(dirname(path)).entries ?? fail("ENOTDIR", path);
  function put(path: string, node: Node): void {
    if (find(path) !== undefined) fail("EEXIST", path);
    entriesOf(path).set(basename(path), node);
  }

  return {
    systemFor(gate) {
      return {
        async open(path, flags) {
          await gate(path, flags.startsWith("wx"));
          if (flags.startsWith("wx")) put(path, makeNode(false));
          return openNode(need(path), flags === "wxs", (isChange) => gate(path, isChange));
        },
        async read(path) {
          await gate(path, false);
          const node = find(path);
          return node && Buffer.from(node.content);
        },
        async size(path) {
          await gate(path, false);
          return find(path)?.content.length;
        },
        async makeFolder(path) {
          await gate(path, true);
          if (find(path) === undefined) put(path, makeNode(true));
        },
        async syncFolder(path) {
          await gate(path, true);
          const node = need(path);
          node.syncedEntries = new Map(node.entries);
        },
        async link(from, to) {
          await gate(to, true);
          put(to, need(from));
        },
        async rename(from, to) {
          await gate(to, true);
          const node = need(from);
          entriesOf(to).set(basename(to), node);
          entriesOf(from).delete(basename(from));
        },
        async unlink(path) {
          await gate(path, true);
          if (find(path) !== undefined) entriesOf(path).delete(basename(path));
        },
      };
    },
    powerCut(random) {
      root = afterPowerCut(root, random, new Map());
    },
    files: (folder) => {
      const node = find(folder);
      return new Map(node === undefined ? [] : filesBelow(node, folder));
    },
  };
}

function openNode(node: Node, isDurable: boolean, gate: (isChange: boolean) => Promise<void>): OpenFile {
  return {
    async read(buffer, position) {
      await gate(false);
      return node.content.copy(buffer, 0, position);
    },
    async write(buffer, position) {
      await gate(true);
      // A long write reaches the disk in two pieces; a kill may come between them.
      const first = buffer.length > 1024 ? buffer.subarray(0, buffer.length >> 1) : buffer;
      writeAt(node, first, position);
      if (first !== buffer) {
        await gate(true);
        writeAt(node, buffer.subarray(first.length), position + first.length);
      }
      if (isDurable) node.synced = node.content;
      return buffer.length;
    },
    async truncate(length) {
      await gate(true);
      node.content = Buffer.from(node.content.subarray(0, length));
    },
    size: async () => node.content.length,
    async sync() {
      await gate(true);
      node.synced = node.content;
    },
    async close() {},
  };
}

/** Contents are never changed in place: what was synced stays as it was. */
function writeAt(node: Node, bytes: Uint8Array, position: number): void {
  const content = Buffer.alloc(Math.max(node.content.length, position + bytes.length));
  node.content.copy(content);
  content.set(bytes, position);
  node.content = content;
}

function makeNode(isFolder: boolean): Node {
  const none = Buffer.alloc(0);
  const entries = () => (isFolder ? new Map<string, Node>() : undefined);
  return { content: none, synced: none, entries: entries(), syncedEntries: entries() };
}

/** A file with two names stays one file. */
function afterPowerCut(node: Node, random: Random, done: Map<Node, Node>): Node {
  const known = done.get(node);
  if (known !== undefined) return known;
  const after = makeNode(node.entries !== undefined);
  done.set(node, after);
  if (node.entries === undefined || node.syncedEntries === undefined) {
    after.content = mixed(node.synced, node.content, random);
    after.synced = after.content;
    return after;
  }
  for (const name of new Set([...node.entries.keys(), ...node.syncedEntries.keys()])) {
    const [now, synced] = [node.entries.get(name), node.syncedEntries.get(name)];
    const entry = now === synced || random.chance(0.5) ? now : synced;
    if (entry !== undefined) after.entries!.set(name, afterPowerCut(entry, random, done));
  }
  after.syncedEntries = new Map(after.entries);
  return after;
}

/** The length is the old or the new one, and each block is too; a block that never arrived is zeros. */
function mixed(synced: Buffer, content: Buffer, random: Random): Buffer {
  if (synced === content) return content;
  const result = Buffer.alloc(random.chance(0.5) ? content.length : synced.length);
  synced.copy(result);
  for (let at = 0; at < result.length; at += BLOCK_BYTES)
    if (random.chance(0.5) && at < content.length) content.copy(result, at, at, at + BLOCK_BYTES);
  return result;
}

function* filesBelow(node: Node, path: string): Generator<[string, Buffer]> {
  if (node.entries === undefined) yield [path, node.content];
  else for (const [name, entry] of node.entries) yield* filesBelow(entry, `${path}/${name}`);
}

function fail(code: string, path: string): never {
  throw Object.assign(new Error(`${code}: ${path}`), { code });
}
