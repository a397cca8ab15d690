import { basename, dirname } from "node:path";
import type { FileSystem, OpenFile } from "../../src/sinks/file/system.ts";

/**
 * A disk in memory that knows what a power cut would leave of it: contents that were not synced and entries
 * of folders that were not synced may be there afterwards, or not, or in part.
 */
export interface Disk extends FileSystem {
  /** The files after the power is back; `isKept` decides for each unsynced change. */
  powerCut(isKept: () => boolean): Disk;
  /** All files by path. */
  files(): Map<string, Buffer>;
}

interface Node {
  content: Buffer;
  /** The memory that the content begins; `used` bytes of it have been content before. */
  memory: Buffer;
  used: number;
  synced: Buffer;
  /** Only folders have entries. */
  entries: Map<string, Node> | undefined;
  syncedEntries: Map<string, Node> | undefined;
}

const BLOCK_BYTES = 64;

export function createDisk(root: Node = makeNode(true)): Disk {
  function find(path: string): Node | undefined {
    let node: Node | undefined = root;
    for (const part of path.split("/").filter((name) => name !== "")) node = node?.entries?.get(part);
    return node;
  }
  function need(path: string): Node {
    return find(path) ?? fail("ENOENT", path);
  }
  function entriesOf(path: string): Map<string, Node> {
    return need(dirname(path)).entries ?? fail("ENOTDIR", path);
  }
  function put(path: string, node: Node): void {
    if (find(path) !== undefined) fail("EEXIST", path);
    entriesOf(path).set(basename(path), node);
  }

  return {
    async open(path, flags) {
      if (flags.startsWith("wx")) put(path, makeNode(false));
      return openNode(need(path), flags === "wxs");
    },
    read: async (path) => find(path)?.content,
    size: async (path) => find(path)?.content.length,
    async makeFolder(path) {
      if (find(path) === undefined) put(path, makeNode(true));
    },
    async syncFolder(path) {
      const node = need(path);
      node.syncedEntries = new Map(node.entries);
    },
    link: async (from, to) => put(to, need(from)),
    async rename(from, to) {
      const node = need(from);
      entriesOf(to).set(basename(to), node);
      entriesOf(from).delete(basename(from));
    },
    async unlink(path) {
      if (find(path) !== undefined) entriesOf(path).delete(basename(path));
    },
    powerCut: (isKept) => createDisk(afterPowerCut(root, isKept, new Map())),
    files: () => new Map(filesBelow(root, "")),
  };
}

function openNode(node: Node, isDurable: boolean): OpenFile {
  return {
    async read(buffer, position) {
      return node.content.copy(buffer, 0, position);
    },
    async write(buffer, position) {
      const length = Math.max(node.content.length, position + buffer.length);
      // Synced content shares this memory: only bytes that never were content are written in place.
      const isNew = position >= node.used && node.content.length === node.used;
      if (!isNew || length > node.memory.length) {
        node.memory = Buffer.alloc(isNew ? 2 * length : length);
        node.content.copy(node.memory);
      }
      node.memory.set(buffer, position);
      node.used = length;
      node.content = node.memory.subarray(0, length);
      if (isDurable) node.synced = node.content;
      return buffer.length;
    },
    async truncate(length) {
      node.memory = Buffer.from(node.content.subarray(0, length));
      node.used = node.memory.length;
      node.content = node.memory;
    },
    size: async () => node.content.length,
    async sync() {
      node.synced = node.content;
    },
    async close() {},
  };
}

function makeNode(isFolder: boolean): Node {
  const none = Buffer.alloc(0);
  const entries = () => (isFolder ? new Map<string, Node>() : undefined);
  return { content: none, memory: none, used: 0, synced: none, entries: entries(), syncedEntries: entries() };
}

/** A file with two names stays one file. */
function afterPowerCut(node: Node, isKept: () => boolean, done: Map<Node, Node>): Node {
  const known = done.get(node);
  if (known !== undefined) return known;
  const after = makeNode(node.entries !== undefined);
  done.set(node, after);
  if (node.entries === undefined || node.syncedEntries === undefined) {
    after.content = mix(node.synced, node.content, isKept);
    after.synced = after.content;
    return after;
  }
  for (const name of new Set([...node.entries.keys(), ...node.syncedEntries.keys()])) {
    const [now, synced] = [node.entries.get(name), node.syncedEntries.get(name)];
    const entry = now === synced || isKept() ? now : synced;
    if (entry !== undefined) after.entries?.set(name, afterPowerCut(entry, isKept, done));
  }
  after.syncedEntries = new Map(after.entries);
  return after;
}

/** The length is the old or the new one, and each block is too; a block that never arrived is zeros. */
function mix(synced: Buffer, content: Buffer, isKept: () => boolean): Buffer {
  if (synced === content) return content;
  const result = Buffer.alloc(isKept() ? content.length : synced.length);
  synced.copy(result);
  for (let at = 0; at < result.length; at += BLOCK_BYTES) {
    if (isKept() && at < content.length) content.copy(result, at, at, at + BLOCK_BYTES);
  }
  return result;
}

function* filesBelow(node: Node, path: string): Generator<[string, Buffer]> {
  if (node.entries === undefined) yield [path, node.content];
  else for (const [name, entry] of node.entries) yield* filesBelow(entry, `${path}/${name}`);
}

function fail(code: string, path: string): never {
  throw Object.assign(new Error(`${code}: ${path}`), { code });
}

/** The process dies here; every call after it fails in the same way. */
class CrashError extends Error {}

/**
 * The same file system until its `callsMax`-th change, which is not made (a write: only its first half);
 * from then on the process is dead. `tick` counts a change that is made elsewhere.
 */
export function crashing(system: FileSystem, callsMax: number) {
  let calls = 0;
  const isDead = () => calls >= callsMax;
  function tick(): void {
    calls++;
    if (isDead()) throw new CrashError();
  }
  const changing =
    <Arguments extends unknown[], Result>(call: (...given: Arguments) => Promise<Result>) =>
    async (...given: Arguments): Promise<Result> => {
      tick();
      return call(...given);
    };
  const reading =
    <Arguments extends unknown[], Result>(call: (...given: Arguments) => Promise<Result>) =>
    async (...given: Arguments): Promise<Result> => {
      if (isDead()) throw new CrashError();
      return call(...given);
    };
  const crashingSystem: FileSystem = {
    async open(path, flags) {
      if (flags.startsWith("wx")) tick();
      if (isDead()) throw new CrashError();
      const file = await system.open(path, flags);
      return {
        read: reading(file.read),
        async write(buffer, position) {
          if (calls + 1 === callsMax) await file.write(buffer.subarray(0, buffer.length >> 1), position);
          tick();
          return file.write(buffer, position);
        },
        truncate: changing(file.truncate),
        size: reading(file.size),
        sync: changing(file.sync),
        close: () => file.close(),
      };
    },
    read: reading(system.read),
    size: reading(system.size),
    makeFolder: changing(system.makeFolder),
    syncFolder: changing(system.syncFolder),
    link: changing(system.link),
    rename: changing(system.rename),
    unlink: changing(system.unlink),
  };
  return { system: crashingSystem, tick, isDead };
}
