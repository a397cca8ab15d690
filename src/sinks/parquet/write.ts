import type { ByteWriter, ParquetWriter } from "hyparquet-writer";
import { createCompressor } from "../../core/zstd.ts";
import { type ParquetRow, parquetRowOf } from "./row.ts";
import { PARQUET_COLUMNS, schemaElements } from "./schema.ts";

/*
 * Lines of OCSF as one Parquet file. Memory is bounded by a row group: lines are collected up to a number of rows
 * or bytes, written as one row group, and the encoded bytes handed on. Columns are compressed with zstd. The
 * library is loaded here and nowhere else, so that it costs nothing without this format.
 */

/** Bytes are those of the lines; the rows take a few times as much while they are encoded. */
const GROUP_LIMITS: GroupLimits = { rowsMax: 20_000, bytesMax: 16 << 20 };
/** Amazon Security Lake asks for data pages of at most 1 MB. */
const PAGE_BYTES = 512 << 10;
const ZSTD_LEVEL = 3;
const LINE_END = 0x0a;

export interface ParquetFile {
  /** Takes whole lines, in pieces of any size; gives encoded bytes as row groups get full. */
  add(lines: Uint8Array): readonly Uint8Array[];
  /** The last row group and the footer. */
  end(metadata: Readonly<Record<string, string>>): readonly Uint8Array[];
}

export interface GroupLimits {
  readonly rowsMax: number;
  readonly bytesMax: number;
}

export async function createParquetFile(limits: GroupLimits = GROUP_LIMITS): Promise<ParquetFile> {
  const { ByteWriter, ParquetWriter } = await import("hyparquet-writer");
  const compress = createCompressor({ compressionLevel: ZSTD_LEVEL });
  const bytes: ByteWriter = new ByteWriter();
  const file: ParquetWriter = new ParquetWriter({
    writer: bytes,
    schema: schemaElements(),
    codec: "ZSTD",
    compressors: {
      ZSTD: (input: Uint8Array) => new Uint8Array(compress(input)),
    },
  });
  let rows: ParquetRow[] = [];
  let rowBytes = 0;
  let partial: Uint8Array[] = [];

  function addLine(line: Uint8Array): void {
    if (line.length === 0) return;
    rows.push(parquetRowOf(line));
    rowBytes += line.length;
  }

  function writeGroup(): Uint8Array[] {
    if (rows.length === 0) return [];
    const columnData = Object.keys(PARQUET_COLUMNS).map((name) => ({
      name,
      data: rows.map((row) => row[name] ?? null),
      // A dictionary pays off for everything but long texts that never repeat.
      ...(LONG_TEXTS.has(name) && { encoding: "PLAIN" as const }),
    }));
    void file.write({ columnData, rowGroupSize: rows.length, pageSize: PAGE_BYTES });
    keepRightStatistics(file);
    rows = [];
    rowBytes = 0;
    return taken(bytes);
  }

  return {
    add(lines) {
      const done: Uint8Array[] = [];
      let from = 0;
      for (let to = lines.indexOf(LINE_END); to >= 0; to = lines.indexOf(LINE_END, from)) {
        const piece = lines.subarray(from, to);
        addLine(partial.length === 0 ? piece : Buffer.concat([...partial, piece]));
        partial = [];
        from = to + 1;
        if (rows.length >= limits.rowsMax || rowBytes >= limits.bytesMax) done.push(...writeGroup());
      }
      if (from < lines.length) partial.push(Buffer.from(lines.subarray(from)));
      return done;
    },
    end(metadata) {
      addLine(Buffer.concat(partial));
      const done = writeGroup();
      file.kvMetadata = Object.entries(metadata).map(([key, value]) => ({ key, value }));
      void file.finish();
      return [...done, ...taken(bytes)];
    },
  };
}

/** A whole file of these lines. */
export async function parquetOf(
  lines: Uint8Array,
  metadata: Readonly<Record<string, string>> = {},
): Promise<Buffer> {
  const file = await createParquetFile();
  return Buffer.concat([...file.add(lines), ...file.end(metadata)]);
}

const LONG_TEXTS: ReadonlySet<string> = new Set(["unmapped", "raw_data"]);

/** The bytes since the last call. The writer counts its offset by itself. */
function taken(writer: ByteWriter): Uint8Array[] {
  if (writer.index === 0) return [];
  const piece = new Uint8Array(writer.buffer.slice(0, writer.index));
  writer.index = 0;
  return [piece];
}

/**
 * The library compares text by UTF-16 units, readers compare it by bytes. The orders differ only from U+D800 on,
 * and a wrong bound would make readers skip rows: such bounds are left out, and those of long texts too.
 */
function keepRightStatistics({ row_groups: groups }: ParquetWriter): void {
  for (const { meta_data: meta } of groups.at(-1)?.columns ?? []) {
    const statistics = meta?.statistics;
    if (meta?.type !== "BYTE_ARRAY" || statistics === undefined) continue;
    const isRight = [statistics.min_value, statistics.max_value].every(
      (bound) => typeof bound !== "string" || !/[\uD800-\uFFFF]/.test(bound),
    );
    if (!isRight || LONG_TEXTS.has(meta.path_in_schema[0]!)) {
      delete statistics.min_value;
      delete statistics.max_value;
    }
  }
}
