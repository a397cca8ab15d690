/*
 * Where an archive keeps its files: a directory or S3. A path has the form `events/2026/11/15.…`. Everything but
 * a few files for convenience is written once: `create` never changes what is there.
 */
export interface ArchiveStore {
  /** For messages: `/var/archive`, `s3://bucket/prefix`. */
  readonly place: string;
  /** A folder on the disk of the store, where a file can be built and then moved; undefined for S3. */
  readonly workFolder: string | undefined;
  /** Durable when it resolves. The same bytes again are fine; other bytes throw a ForeignFileError. */
  create(path: string, content: Content): Promise<void>;
  /** For `log/checkpoint` and the files that only help readers. Durable and never seen half written. */
  replace(path: string, bytes: Uint8Array): Promise<void>;
  /** Undefined when there is no such file. `length` bytes from `from`, fewer at the end of the file. */
  read(path: string, range?: { readonly from: number; readonly length: number }): Promise<Buffer | undefined>;
  stat(path: string): Promise<StoredFile | undefined>;
  /** Every file below the prefix, in no certain order. */
  list(prefix: string): AsyncIterable<StoredFile>;
  /** With all versions. A file that is not there is fine; a locked one throws a LockedFileError. */
  remove(path: string): Promise<void>;
  close(): Promise<void>;
}

/** Enough to check files. */
export type ReadableStore = Pick<ArchiveStore, "read" | "stat">;

export interface StoredFile {
  readonly path: string;
  readonly bytes: number;
  /** As the store itself computed it, in hexadecimal; undefined where it does not. */
  readonly sha256?: string | undefined;
}

/** Bytes, or a local file whose length and hash are known; `create` may take the file away. */
export type Content =
  | { readonly bytes: Uint8Array }
  | { readonly file: string; readonly length: number; readonly sha256: string };

export class ForeignFileError extends Error {
  override readonly name = "ForeignFileError";
  constructor(place: string, path: string) {
    super(`${place}/${path} exists with other content than this archive would write. Nothing was changed.`);
  }
}

export class LockedFileError extends Error {
  override readonly name = "LockedFileError";
  readonly untilMs: number;
  constructor(place: string, path: string, untilMs: number) {
    super(`${place}/${path} is locked until ${new Date(untilMs).toISOString()}.`);
    this.untilMs = untilMs;
  }
}
