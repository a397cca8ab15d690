/**
 * A bucket or container in which objects are created and never replaced. Errors are those of core/errors.ts:
 * a store never judges an event, so a lasting refusal pauses.
 */
export interface ObjectStore {
  /** The bucket as messages name it. */
  readonly place: string;
  /** Creates an object that does not exist, durable when this resolves. False: the key is taken. */
  create(object: NewObject, signal: AbortSignal): Promise<boolean>;
  /** A digest in the metadata of an object, "" where it has none; undefined: there is no such object. */
  digestOf(key: string, signal: AbortSignal, name?: DigestName): Promise<string | undefined>;
  /** Fails when the bucket is missing or refuses us. A user who may only write passes. */
  greet(signal: AbortSignal): Promise<void>;
  /**
   * Tries to create an object whose checksum is wrong, which every store refuses after it has checked the
   * right to write, and stores nothing. Resolves to remarks.
   */
  probe(key: string, signal: AbortSignal): Promise<readonly string[]>;
  close(): Promise<void>;
}

export interface NewObject {
  readonly key: string;
  readonly body: Uint8Array;
  readonly contentType: string;
  /** Names in lower case with hyphens. */
  readonly metadata: Readonly<Record<string, string>>;
}

/** The metadata that holds the digest of the uncompressed content (R26). */
export const DIGEST = "tidemark-sha256";
/** The metadata that holds the digest of the events as the service sent them, in any format (C12). */
export const EVENTS_DIGEST = "tidemark-events-sha256";
export type DigestName = typeof DIGEST | typeof EVENTS_DIGEST;
