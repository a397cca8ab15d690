import { crc32 } from "node:zlib";
import { DecisionNeededError, RetryableError } from "../../core/errors.ts";
import { type FileSystem, renameWithoutReplacing, writeAll } from "./system.ts";

/**
 * The ledger of a directory: which files are still in work, how long each is by the last commit, and the
 * journal's position that goes with those lengths. It is also the marker that says whose the directory is.
 *
 * It is a text file. The first line is a snapshot, each further line a list of changes, each line under a
 * checksum. A line is appended and synced before the next begins, so only the last can be torn, and a torn
 * line was never reported as committed. Opening always writes a new snapshot beside it and renames it over,
 * so that everything read is durable and a torn end is gone.
 */
export interface Ledger {
  readonly model: LedgerModel;
  /** Durable, all or nothing, when it resolves. After an error every further call fails: open anew. */
  append(changes: readonly LedgerChange[]): Promise<void>;
  close(): Promise<void>;
}

export interface LedgerModel {
  /** Made with the ledger; the sink's state names it. */
  readonly id: string;
  sink: string;
  journal: string;
  format: string;
  /** The number of the next file; only ever rises. */
  next: number;
  /** Counts the commits. */
  sequence: number;
  /** The newest commit that the journal is known to have taken over before `sequence` was made. */
  base: number;
  /** The journal's position after the last commit; "" before the first. */
  position: string;
  /** In the order of their numbers. */
  readonly files: Map<number, LedgerFile>;
}

export interface LedgerFile {
  readonly number: number;
  /** Relative to the directory. */
  readonly path: string;
  readonly createdMs: number;
  /** 0: no commit has reached it, so its content does not count. */
  length: number;
  /** True: its length is final, and it waits to be compressed. */
  finished: boolean;
}

export type LedgerChange =
  | { readonly make: readonly (readonly [number: number, path: string, createdMs: number])[] }
  | {
      readonly commit: {
        readonly sequence: number;
        readonly base: number;
        readonly position: string;
        readonly lengths: readonly (readonly [number: number, length: number])[];
      };
    }
  | { readonly finish: readonly number[] }
  | { readonly forget: readonly number[] };

const FOLDER = ".tidemark";
const VERSION = 1;
/** The log is replaced by a snapshot when it has outgrown this and four times the snapshot. */
const LOG_BYTES_MIN = 1 << 20;

/** The directory's ledger; undefined when there is none. */
export async function readLedger(system: FileSystem, directory: string): Promise<LedgerModel | undefined> {
  const bytes = await system.read(ledgerPath(directory));
  if (bytes === undefined) return undefined;
  const lines = bytes.toString("utf8").split("\n");
  const model = modelOf(parseLine(lines[0]!), directory);
  for (let at = 1; at < lines.length; at++) {
    const changes = parseLine(lines[at]!) as readonly LedgerChange[] | undefined;
    if (changes !== undefined) for (const change of changes) applyChange(model, change);
    else if (lines.slice(at + 1).some((line) => parseLine(line) !== undefined)) throw damaged(directory);
    else break;
  }
  return model;
}

/** Makes the model durable as a fresh snapshot and opens it for appending. */
export async function openLedger(
  system: FileSystem,
  directory: string,
  model: LedgerModel,
  isNew: boolean,
): Promise<Ledger> {
  if (isNew) await makeLedgerFolder(system, directory);
  let { file, length } = await replaceLedger(system, directory, model, isNew);
  let snapshotLength = length;
  let failed = false;
  let tail: Promise<void> = Promise.resolve();

  async function appendNow(changes: readonly LedgerChange[]): Promise<void> {
    if (failed) throw new RetryableError("The ledger failed before and is to be opened again.");
    failed = true;
    const line = formatLine(changes);
    await writeAll(file, line, length);
    length += line.length;
    for (const change of changes) applyChange(model, change);
    if (length > Math.max(LOG_BYTES_MIN, 4 * snapshotLength)) {
      const old = file;
      ({ file, length } = await replaceLedger(system, directory, model, false));
      snapshotLength = length;
      await old.close();
    }
    failed = false;
  }

  return {
    model,
    append(changes) {
      const done = tail.then(() => appendNow(changes));
      tail = done.catch(() => {});
      return done;
    },
    async close() {
      await tail;
      await file.close();
    },
  };
}

async function makeLedgerFolder(system: FileSystem, directory: string): Promise<void> {
  await system.makeFolder(`${directory}/${FOLDER}`);
  await system.syncFolder(directory);
}

async function replaceLedger(system: FileSystem, directory: string, model: LedgerModel, isNew: boolean) {
  const path = ledgerPath(directory);
  const temporary = `${path}.new`;
  await system.unlink(temporary);
  const file = await system.open(temporary, "wxs");
  try {
    const line = formatLine(snapshotOf(model));
    await writeAll(file, line, 0);
    if (isNew) await renameWithoutReplacing(system, temporary, path);
    else await system.rename(temporary, path);
    await system.syncFolder(`${directory}/${FOLDER}`);
    return { file, length: line.length };
  } catch (error) {
    await file.close().catch(() => {});
    throw error;
  }
}

export function ledgerPath(directory: string): string {
  return `${directory}/${FOLDER}/ledger`;
}

function formatLine(value: unknown): Buffer {
  const json = JSON.stringify(value);
  return Buffer.from(`${crc32(json).toString(16).padStart(8, "0")} ${json}\n`);
}

function parseLine(line: string): unknown {
  const json = line.slice(9);
  if (line[8] !== " " || line.slice(0, 8) !== crc32(json).toString(16).padStart(8, "0")) return undefined;
  return JSON.parse(json);
}

function snapshotOf(model: LedgerModel) {
  const files = [...model.files.values()].map((file) => [
    file.number,
    file.path,
    file.createdMs,
    file.length,
    file.finished,
  ]);
  return { version: VERSION, ...model, files };
}

type Snapshot = Omit<LedgerModel, "files"> & {
  readonly version: number;
  readonly files: readonly [number, string, number, number, boolean][];
};

function modelOf(line: unknown, directory: string): LedgerModel {
  if (line === undefined) throw damaged(directory);
  const { version, files, ...model } = line as Snapshot;
  if (version !== VERSION) {
    throw new DecisionNeededError(
      `The ledger ${ledgerPath(directory)} has version ${version}, which is newer.`,
      ["run the newer tidemark that wrote it", "give the sink another directory"],
    );
  }
  return {
    ...model,
    files: new Map(
      files.map(([number, path, createdMs, length, finished]) => [
        number,
        { number, path, createdMs, length, finished },
      ]),
    ),
  };
}

function applyChange(model: LedgerModel, change: LedgerChange): void {
  if ("make" in change) {
    for (const [number, path, createdMs] of change.make) {
      model.files.set(number, { number, path, createdMs, length: 0, finished: false });
      model.next = Math.max(model.next, number + 1);
    }
  } else if ("commit" in change) {
    const { sequence, base, position, lengths } = change.commit;
    Object.assign(model, { sequence, base, position });
    for (const [number, length] of lengths) model.files.get(number)!.length = length;
  } else if ("finish" in change) {
    for (const number of change.finish) model.files.get(number)!.finished = true;
  } else {
    for (const number of change.forget) model.files.delete(number);
  }
}

function damaged(directory: string): DecisionNeededError {
  return new DecisionNeededError(
    `The ledger ${ledgerPath(directory)} is damaged, so which bytes of the files count is not known.`,
    [
      "restore the directory together with the state file from one backup",
      "keep it and go on in another: give the sink a new name, an empty directory and `start: beginning` in the config, then run `tidemark sinks forget` with its old name",
    ],
  );
}
