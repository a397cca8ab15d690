/** One event of the journal: its exact bytes, and the few fields that the program uses itself. */
export interface JournalEvent {
  /** The exact slice of the response that held it. May share memory with its page: never write to it. */
  readonly bytes: Uint8Array;
  /** The number of bytes, known without reading them. */
  readonly size: number;
  /** True if the bytes are known to contain no line break. */
  readonly isOneLine?: boolean;
  readonly account: string;
  /** The organization it belongs to, in lower case; null for the multi-tenant portal's own events. */
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
  /** When it was fetched, by the service's clock. */
  readonly fetchedAtMs: number;
  /** Its place in the journal: page number, and index inside the page. */
  readonly page: number;
  readonly index: number;
}
