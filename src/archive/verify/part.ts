import { createHash, hash } from "node:crypto";
import { decompress } from "../../core/zstd.ts";
import { frameContentSize } from "../../core/zstd-frame.ts";
import type { PartFiles } from "../log/leaf.ts";
import { createTree } from "../log/tree.ts";
import { nonceSource } from "../part/data-file.ts";
import { type FrameSizes, parseKeyFrame, type RangeKey, seekTable } from "../part/frames.ts";
import { createEventHasher, lineLeaf, lineNonceOf } from "../part/hashing.ts";
import { type Line, type ManifestEntry, parseManifest } from "../part/manifest.ts";
import type { ReadableStore } from "../store/store.ts";
import type { Findings } from "./findings.ts";
import { openSequential, type SequentialFile } from "./sequential.ts";

/*
 * Checks one part: the manifest against the log entry, then the data file in one pass from its first byte to its
 * last. Sizes come from the parent: the number of lines from the log, the number of events from the line (A16).
 */

const HASH_MISMATCH = "INVALID: hash value does not match";
const MISSING = "MISSING: the file is not there";

export interface CheckedPart {
  readonly events: number;
  readonly rawBytes: number;
}

export interface PartScope {
  /** Only the lines of these organizations are decompressed; empty: all. */
  readonly organizations: ReadonlySet<string>;
}

export async function readManifest(
  store: ReadableStore,
  files: PartFiles,
  original: string | undefined,
  findings: Findings,
): Promise<readonly ManifestEntry[] | undefined> {
  const { manifest } = files;
  const bytes = await store.read(manifest);
  if (!findings.expect("missing files", bytes !== undefined, manifest, MISSING) || bytes === undefined)
    return undefined;
  const isSame =
    bytes.length === files.manifest_bytes && hash("sha256", bytes, "hex") === files.manifest_sha256;
  findings.expect("manifest hash", isSame, manifest, HASH_MISMATCH);
  try {
    const entries = parseManifest(bytes);
    checkTree(entries, files, original, findings);
    return entries;
  } catch (error) {
    findings.expect("lines", false, manifest, `INVALID: ${(error as Error).message}`);
    return undefined;
  }
}

/** The lines as they are now, and, after an erasure, as the first manifest had them. */
function checkTree(
  entries: readonly ManifestEntry[],
  files: PartFiles,
  original: string | undefined,
  findings: Findings,
): void {
  const rootOver = (leafOf: (entry: ManifestEntry) => string) => {
    const tree = createTree();
    for (const entry of entries) tree.append(Buffer.from(leafOf(entry), "hex"));
    return tree.root().toString("hex");
  };
  const isTree = entries.length === files.lines && rootOver(({ leaf }) => leaf) === files.lines_root;
  findings.expect(
    "manifest tree",
    isTree,
    files.manifest,
    "INVALID: its lines are not those of the log entry",
  );
  if (original === undefined) return;
  const isSame = rootOver((entry) => ("replaces" in entry && entry.replaces) || entry.leaf) === original;
  findings.expect(
    "manifest tree",
    isSame,
    files.manifest,
    "INVALID: it does not replace the manifest that was closed first",
  );
}

export async function checkPart(
  store: ReadableStore,
  files: PartFiles,
  entries: readonly ManifestEntry[],
  scope: PartScope,
  findings: Findings,
): Promise<CheckedPart> {
  const lines = entries.flatMap((entry) => ("gone" in entry ? [] : [entry]));
  checkLines(lines, files, findings);
  const total = { events: 0, rawBytes: 0 };
  const file = await openSequential(store, files.data);
  if (!findings.expect("missing files", file !== undefined, files.data, MISSING) || file === undefined)
    return total;
  const isWanted = (line: Line) =>
    scope.organizations.size === 0 || scope.organizations.has(line.organization);
  const frames: FrameSizes[] = [];
  for (const { line, leaf, bytes } of lines) {
    frames.push({ stored: line.key_bytes, raw: 0 }, ...line.frames.map(([stored, raw]) => ({ stored, raw })));
    const subject = `${files.data} (${line.organization})`;
    if (!isWanted(line)) {
      await file.take(line.stored_bytes);
      continue;
    }
    const end = file.taken + line.stored_bytes;
    const key = await checkRange(file, line, subject, findings);
    // A damaged range ends early; the next one begins where the manifest says.
    if (file.taken < end) await file.take(end - file.taken);
    if (key === undefined) continue;
    const nonce = key.kind === "secret" ? lineNonceOf(key.secret) : key.line;
    findings.expect(
      "line hash",
      lineLeaf(nonce, bytes).toString("hex") === leaf,
      `${files.manifest} (${line.organization})`,
      HASH_MISMATCH,
    );
    total.events += line.events - line.erased.length;
    total.rawBytes += line.raw_bytes;
  }
  const table = seekTable(frames);
  const found = await file.take(table.length);
  findings.expect(
    "seek table",
    found?.equals(table) === true,
    files.data,
    "INVALID: the seek table does not match the manifest",
  );
  await checkHash(file, files, findings);
  return total;
}

async function checkHash(file: SequentialFile, files: PartFiles, findings: Findings): Promise<void> {
  const whole = await file.finish();
  const isSame = whole.bytes === files.data_bytes && whole.sha256 === files.data_sha256;
  findings.expect("data file hash", isSame, files.data, HASH_MISMATCH);
}

/** The data file against the log entry alone, where the manifest cannot be read. */
export async function checkDataFile(
  store: ReadableStore,
  files: PartFiles,
  findings: Findings,
): Promise<void> {
  const file = await openSequential(store, files.data);
  findings.expect("missing files", file !== undefined, files.data, MISSING);
  if (file !== undefined) await checkHash(file, files, findings);
}

/** Ranges and frames tile the file, and the lines add up to what the log says. */
function checkLines(lines: readonly { readonly line: Line }[], files: PartFiles, findings: Findings): void {
  let [offset, events, rawBytes] = [0, 0, 0];
  let before = "";
  for (const { line } of lines) {
    const subject = `${files.manifest} (${line.organization})`;
    const isOwn =
      line.day === files.day &&
      line.part === files.part &&
      line.class === files.class &&
      line.organization > before;
    findings.expect("lines", isOwn, subject, "INVALID: the line is of another part, or out of order");
    const sum = (at: 0 | 1 | 2) => line.frames.reduce((total, frame) => total + frame[at], 0);
    const tiles =
      line.offset === offset &&
      line.stored_bytes === line.key_bytes + sum(0) &&
      line.raw_bytes === sum(1) &&
      line.events === sum(2);
    findings.expect(
      "ranges",
      tiles,
      subject,
      "INVALID: ranges and frames do not fill the file without a gap",
    );
    before = line.organization;
    offset += line.stored_bytes;
    events += line.events;
    rawBytes += line.raw_bytes;
  }
  const isSum = events === files.events && rawBytes === files.raw_bytes;
  findings.expect("lines", isSum, files.manifest, "INVALID: the totals are not those of the log entry");
}

async function checkRange(
  file: SequentialFile,
  line: Line,
  subject: string,
  findings: Findings,
): Promise<RangeKey | undefined> {
  const stored = createHash("sha256");
  const head = await file.take(line.key_bytes);
  if (head === undefined) {
    findings.expect("ranges", false, subject, "INVALID: the file ends too early");
    return undefined;
  }
  stored.update(head);
  const key = parseKeyFrame(Buffer.from(head), line.events);
  if (
    !findings.expect("frames", key !== undefined, subject, "INVALID: the key frame is damaged") ||
    key === undefined
  )
    return undefined;
  const events = createEventChecker(line, key);
  for (const [length, raw] of line.frames) {
    const frame = await file.take(length);
    if (frame === undefined) {
      findings.expect("ranges", false, subject, "INVALID: the file ends too early");
      return key;
    }
    stored.update(frame);
    const content = decompressed(frame, raw);
    if (
      !findings.expect(
        "frames",
        content !== undefined,
        subject,
        "INVALID: a frame is damaged or larger than declared",
      ) ||
      content === undefined
    )
      return key;
    events.take(content);
  }
  findings.expect("range hash", stored.digest("hex") === line.stored_sha256, subject, HASH_MISMATCH);
  const problem = events.problem();
  findings.expect("events tree", problem === undefined, subject, `INVALID: ${problem}`);
  return key;
}

function decompressed(frame: Buffer, raw: number): Buffer | undefined {
  if (frameContentSize(frame) !== raw) return undefined;
  try {
    const content = decompress(frame);
    return content.length === raw ? content : undefined;
  } catch {
    return undefined;
  }
}

const LINE_BREAK = 0x0a;

/** Cuts the content into events again and builds their tree. */
function createEventChecker(line: Line, key: RangeKey) {
  const hasher = createEventHasher(nonceSource(key));
  const tree = createTree();
  const digest = createHash("sha256");
  const breaks = new Map(line.breaks.map(([index, offset, length]) => [index, { offset, length }]));
  const erased = new Map(line.erased);
  let [events, offset] = [0, 0];
  let broken: string | undefined;

  function sliceAt(content: Buffer, at: number): Buffer | undefined {
    const known = breaks.get(events);
    if (known !== undefined && known.offset !== offset + at) return undefined;
    const end = known === undefined ? content.indexOf(LINE_BREAK, at) : at + known.length;
    return end >= 0 && content[end] === LINE_BREAK ? content.subarray(at, end) : undefined;
  }

  return {
    take(content: Buffer): void {
      digest.update(content);
      for (let at = 0; at < content.length && broken === undefined; events++) {
        const slice = sliceAt(content, at);
        if (slice === undefined) {
          broken = "an event does not end with its line break";
          return;
        }
        const gone = erased.get(events);
        if (gone !== undefined && slice.length > 0) broken = "an erased event is still there";
        tree.append(gone === undefined ? hasher.leaf(events, slice) : Buffer.from(gone, "hex"));
        at += slice.length + 1;
      }
      offset += content.length;
    },
    problem(): string | undefined {
      if (broken !== undefined) return broken;
      if (events !== line.events) return `it has ${events} events instead of ${line.events}`;
      if (digest.digest("hex") !== line.raw_sha256) return "hash value of the events does not match";
      return tree.root().toString("hex") === line.events_root
        ? undefined
        : "the tree of its events does not match";
    },
  };
}
