import { createHash, hash, randomUUID } from "node:crypto";
import {
  createReadStream,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { INDEX_VERSION } from "../columns.ts";
import { syncFile } from "./writer.ts";

/*
 * The files of an index. Each Parquet file has a note beside it with its length and SHA-256.
 *
 *   missing    no note, another version, or another length: it is made anew
 *   unchecked  the file's time differs from the note's, or its last check is a day old: it is hashed
 *   damaged    the hash differs: it is made anew
 *   checked    it is used
 *
 * The note appears before the file, both by a rename, so a file that has its name has its note. Two processes that
 * make the same file write the same content, and the later one replaces the other's.
 */
export interface IndexFile {
  readonly name: string;
  readonly path: string;
  readonly rows: number;
  /** The smallest and the largest time of its rows. */
  readonly firstNs: bigint;
  readonly lastNs: bigint;
}

export interface IndexCatalog {
  /** The file, if it is there and intact. */
  find(name: string): Promise<IndexFile | undefined>;
  /** The names that begin like this, intact or not. */
  names(prefix: string): string[];
  /** A new name for a file that is not complete yet. */
  temporaryPath(): string;
  /** Gives a complete file its name. */
  add(
    name: string,
    temporary: string,
    facts: { rows: number; firstNs: bigint; lastNs: bigint },
  ): Promise<IndexFile>;
  /** Hashes the file whatever its note says; removes it when it is damaged. */
  check(name: string): Promise<boolean>;
  /** Removes every file but these, and what processes that ended left unfinished. */
  keep(names: ReadonlySet<string>): void;
  /** Removes every file. */
  clear(): void;
}

interface Note {
  readonly version: number;
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
  readonly firstNs: string;
  readonly lastNs: string;
  readonly changedMs: number;
  readonly checkedMs: number;
}

const CHECK_EVERY_MS = 86_400_000;
const NOTE = ".json";
const PARQUET = ".parquet";
const UNFINISHED = ".new";
/** No file takes longer than this to write. */
const ABANDONED_MS = 3_600_000;

export function openCatalog(folder: string, nowMs: () => number): IndexCatalog {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const known = new Map<
    string,
    { readonly file: IndexFile; readonly changedMs: number; readonly bytes: number }
  >();
  const pathOf = (name: string) => join(folder, `${name}${PARQUET}`);
  const notePath = (name: string) => join(folder, `${name}${NOTE}`);
  const temporaryPath = () => join(folder, `${randomUUID()}${UNFINISHED}`);

  function remove(name: string): void {
    known.delete(name);
    rmSync(notePath(name), { force: true });
    rmSync(pathOf(name), { force: true });
  }

  function removeAbandoned(path: string): void {
    const found = statOf(path);
    if (found !== undefined && nowMs() - found.mtimeMs > ABANDONED_MS) rmSync(path, { force: true });
  }

  function read(name: string): Note | undefined {
    try {
      const { content, sha256 } = JSON.parse(readFileSync(notePath(name), "utf8")) as {
        content: Note;
        sha256: string;
      };
      return hash("sha256", JSON.stringify(content), "hex") === sha256 ? content : undefined;
    } catch {
      return undefined;
    }
  }

  function write(name: string, content: Note): IndexFile {
    const sha256 = hash("sha256", JSON.stringify(content), "hex");
    const temporary = temporaryPath();
    writeFileSync(temporary, JSON.stringify({ content, sha256 }), { mode: 0o600 });
    renameSync(temporary, notePath(name));
    return remember(name, content);
  }

  function remember(name: string, { rows, firstNs, lastNs, changedMs, bytes }: Note): IndexFile {
    const file = { name, path: pathOf(name), rows, firstNs: BigInt(firstNs), lastNs: BigInt(lastNs) };
    known.set(name, { file, changedMs, bytes });
    return file;
  }

  async function check(name: string): Promise<boolean> {
    const content = read(name);
    const found = statOf(pathOf(name));
    if (content === undefined || found === undefined || (await sha256Of(pathOf(name))) !== content.sha256) {
      remove(name);
      return false;
    }
    write(name, { ...content, changedMs: found.mtimeMs, checkedMs: nowMs() });
    return true;
  }

  return {
    temporaryPath,
    check,
    names: (prefix) =>
      readdirSync(folder)
        .filter((file) => file.startsWith(prefix) && file.endsWith(NOTE))
        .map((file) => file.slice(0, -NOTE.length)),
    async find(name) {
      const found = statOf(pathOf(name));
      const before = known.get(name);
      if (found !== undefined && before?.changedMs === found.mtimeMs && before.bytes === found.size)
        return before.file;
      const content = read(name);
      if (content?.version !== INDEX_VERSION || found?.size !== content.bytes) return undefined;
      const isFresh = found.mtimeMs === content.changedMs && nowMs() - content.checkedMs < CHECK_EVERY_MS;
      if (!isFresh && !(await check(name))) return undefined;
      return known.get(name)?.file ?? remember(name, content);
    },
    async add(name, temporary, { rows, firstNs, lastNs }) {
      const { size, mtimeMs } = statSync(temporary);
      const file = write(name, {
        version: INDEX_VERSION,
        rows,
        bytes: size,
        sha256: await sha256Of(temporary),
        firstNs: String(firstNs),
        lastNs: String(lastNs),
        changedMs: mtimeMs,
        checkedMs: nowMs(),
      });
      renameSync(temporary, pathOf(name));
      syncFile(folder);
      return file;
    },
    keep(names) {
      for (const file of readdirSync(folder)) {
        const name = file.replace(/(\.parquet|\.json)$/, "");
        if (name !== file && !names.has(name)) remove(name);
        if (file.endsWith(UNFINISHED)) removeAbandoned(join(folder, file));
      }
    },
    clear() {
      for (const file of readdirSync(folder))
        if (file.endsWith(NOTE) || file.endsWith(PARQUET)) remove(file.replace(/(\.parquet|\.json)$/, ""));
    },
  };
}

function statOf(path: string) {
  return statSync(path, { throwIfNoEntry: false });
}

function sha256Of(path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const digest = createHash("sha256");
    createReadStream(path, { highWaterMark: 1 << 20 })
      .on("data", (chunk) => digest.update(chunk))
      .on("end", () => resolve(digest.digest("hex")))
      .on("error", reject);
  });
}
