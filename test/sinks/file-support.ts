import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterEach, beforeEach } from "vitest";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import type { JournalEvent } from "../../src/core/event.ts";
import type { Format } from "../../src/core/format.ts";
import { type Log, silentLog } from "../../src/core/log.ts";
import type { Sink, SinkContext } from "../../src/core/sink.ts";
import { decompress } from "../../src/core/zstd.ts";
import type { FileSettings } from "../../src/sinks/file/config.ts";
import { file, openFileSink } from "../../src/sinks/file/sink.ts";
import type { FileSystem } from "../../src/sinks/file/system.ts";
import { type Committed, nothingCommitted } from "../contract/drive.ts";
import { type JournalFixture, openFixture } from "../journal/support.ts";
import { makeBatch, rawFormat, TEST_JOURNAL } from "../support/events.ts";

export function makeFolder(): { readonly path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), "tidemark-file-"));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

/** A folder and a journal, new for each test of the file. */
export function useDisk(): {
  readonly folder: ReturnType<typeof makeFolder>;
  readonly fixture: JournalFixture;
} {
  let folder: ReturnType<typeof makeFolder>;
  let fixture: JournalFixture;
  beforeEach(() => {
    folder = makeFolder();
    fixture = openFixture();
  });
  afterEach(() => {
    fixture.close();
    folder.remove();
  });
  return {
    get folder() {
      return folder;
    },
    get fixture() {
      return fixture;
    },
  };
}

export interface Opening {
  readonly committed?: Committed;
  readonly name?: string;
  readonly journal?: string;
  readonly format?: Format;
  readonly nowMs?: number;
  readonly clock?: () => number;
  readonly sleep?: Clock["sleep"];
  readonly log?: Log;
  readonly system?: FileSystem;
  readonly signal?: AbortSignal;
}

export function openFile(directory: string, config: object = {}, opening: Opening = {}): Promise<Sink> {
  const { position, state } = opening.committed ?? nothingCommitted;
  const { nowMs } = opening;
  const now = opening.clock ?? (nowMs === undefined ? systemClock.now : () => nowMs);
  const context: SinkContext<FileSettings> = {
    name: opening.name ?? "disk",
    config: file.config.parse({ directory, ...config }) as FileSettings,
    format: opening.format ?? rawFormat,
    journal: opening.journal ?? TEST_JOURNAL,
    position,
    state,
    clock: { now, sleep: opening.sleep ?? systemClock.sleep },
    log: opening.log ?? silentLog,
    signal: opening.signal ?? new AbortController().signal,
  };
  return openFileSink(context, opening.system);
}

/** Writes the events as one batch; what the journal would then hold. */
export async function put(sink: Sink, events: readonly JournalEvent[], format?: Format): Promise<Committed> {
  const batch = makeBatch(sink, events, undefined, format);
  const state = await sink.write(batch, new AbortController().signal);
  return { position: batch.to, state };
}

/** The names of all files below a folder, the ledger's apart, in order. */
export function namesIn(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(directory.length + 1))
    .filter((name) => !/(^|\/)\.tidemark\//.test(name))
    .sort();
}

/** All lines of all files, compressed or not, in the order of their numbers. */
export function linesIn(directory: string): string[] {
  const numberOf = (name: string) => Number(/\.(\d{8})\.\w+(\.gz|\.zst)?$/.exec(name)?.[1]);
  return namesIn(directory)
    .toSorted((a, b) => numberOf(a) - numberOf(b))
    .flatMap((name) => linesOf(join(directory, name)));
}

export function linesOf(path: string): string[] {
  const text = contentOf(path, readFileSync(path)).toString();
  if (text !== "" && !text.endsWith("\n")) throw new Error(`${path} ends inside a line`);
  return text.split("\n").slice(0, -1);
}

/** Text that is nowhere the same twice, so that a lost, repeated or exchanged part of it is noticed. */
export function countersOf(length: number, from = 0): Buffer {
  const counters = Uint32Array.from({ length: Math.ceil(length / 8) }, (_, at) => at + from);
  return Buffer.from(Buffer.from(counters.buffer).toString("hex")).subarray(0, length);
}

/** The content of a file, by the ending of its name. */
export function contentOf(path: string, bytes: Buffer): Buffer {
  if (path.endsWith(".gz")) return gunzipSync(bytes);
  return path.endsWith(".zst") && bytes.length > 0 ? decompress(bytes) : bytes;
}

export function textOf(events: readonly JournalEvent[]): string[] {
  return events.map((event) => Buffer.from(event.bytes).toString());
}
