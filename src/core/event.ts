/** One event of the journal: its exact bytes, and the few fields that the program steers by. */
export interface JournalEvent {
  /** The exact slice of the response that held it. May share memory with its page: never write to it. */
  readonly bytes: Uint8Array;
  /** How many bytes these are; known without a look at them. */
  readonly size: number;
  /** True where the bytes are known to hold no line break. */
  readonly isOneLine?: boolean;
  readonly account: string;
  /** Whom it is attributed to, in lower case; null for the multi-tenant portal's own events. */
  readonly organization: string | null;
  /** The provider whose portal it belongs to, if it was read from there. */
  readonly provider: string | null;
  /** "" where the event has none. */
  readonly service: string;
  /** "" where the event has none. */
  readonly eventType: string;
  /** As served, at full precision; "" where the event has none. */
  readonly timestamp: string;
  /** The timestamp cut to milliseconds; the time of fetching where the event has none. */
  readonly timestampMs: number;
  readonly id: string | undefined;
  readonly correlationId: string | undefined;
  /** 32 hexadecimal digits, the same for the same event whenever it is read (R10). */
  readonly identity: string;
  /** When it was pulled, by the service's clock. */
  readonly fetchedAtMs: number;
  /** Its place in the journal: page number, and index inside the page. */
  readonly page: number;
  readonly index: number;
}
