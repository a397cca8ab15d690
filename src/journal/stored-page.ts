import type { JournalEvent } from "../core/event.ts";
import { identityAt } from "../core/identity.ts";
import type { JournalPage, Lines } from "../core/journal.ts";
import { alikeFrom, framesOf, makeLines } from "../core/page-body.ts";
import type { PageLease } from "../core/page-lease.ts";
import type { EventRecords, PageSlice } from "../core/page-slice.ts";
import { IDENTITY_BYTES } from "../core/prepare-page.ts";
import {
  eventSize,
  eventTimeMs,
  FIELD,
  fieldText,
  hasField,
  type ScannedPage,
  STRIDE,
} from "../core/scanner.ts";

/** The row of a page: everything but its events. */
export interface PageRow {
  readonly number: number;
  readonly account: string;
  readonly organization: string | null;
  readonly provider: string | null;
  readonly reader: string | null;
  readonly fetchedMs: number;
  readonly newestMs: number;
  readonly events: number;
  readonly bytes: number;
  readonly twins: string | null;
  readonly checksum: Buffer;
  readonly rolling: string;
}

/** A decoded page with a lease on its bytes. */
export interface Decoded {
  readonly scanned: ScannedPage;
  readonly lease: PageLease;
  /** As it is stored, where that is at hand. */
  readonly body?: Buffer | undefined;
  /** Sixteen bytes an event, where these were made already. */
  readonly identities?: Buffer | undefined;
  readonly records?: EventRecords | undefined;
}

/** A page as readers see it, from the event at `first` on. Its lease becomes the reader's. */
export function storedPage(
  journal: string,
  row: PageRow,
  { scanned, lease, body, identities, records }: Decoded,
  first: number,
): JournalPage {
  const stored: StoredPage & { readonly row: PageRow } = {
    row,
    first: 0,
    scanned,
    body,
    identities,
    records,
    twins: row.twins === null ? {} : (JSON.parse(row.twins) as Record<string, string>),
    organizations: organizationsOf(scanned, row.organization),
  };
  let lines: Lines | undefined | null = null;
  return {
    number: row.number,
    isOwn: row.reader !== null,
    lease,
    first,
    count: row.events - first,
    event: (index) => new StoredEvent(stored, index),
    get lines() {
      if (lines === null) lines = makeLines(scanned) ? new StoredLines(stored) : undefined;
      return lines;
    },
    inPlace: inPlace(stored),
    slice: (from, to) => copySlice(stored, from, to),
    shapes: (from, to) => scanned.shapes.subarray(2 * from, 2 * to),
    hasCorrelation: (index) => hasField(scanned, index, FIELD.correlationId),
    after: (index) => ({ journal, page: row.number, event: index + 1, hash: row.rolling }),
  };
}

function inPlace({ row, scanned, identities, records, twins }: StoredPage & { readonly row: PageRow }) {
  if (identities === undefined || Object.keys(twins).length > 0) return undefined;
  const { bytes, columns, timesMs, runs } = scanned;
  return {
    bytes,
    columns,
    timesMs,
    runs,
    identities,
    organization: row.organization,
    records,
  };
}

function copySlice(
  { row, scanned, identities, twins }: StoredPage & { readonly row: PageRow },
  from: number,
  to: number,
): PageSlice {
  const start = scanned.columns[from * STRIDE]!;
  const columns = scanned.columns.slice(from * STRIDE, to * STRIDE) as Int32Array<ArrayBuffer>;
  for (let at = 0; at < columns.length; at++) if (columns[at]! >= 0) columns[at]! -= start;
  const copied: Record<string, string> = {};
  for (const [index, identity] of Object.entries(twins)) copied[Number(index) - from] = identity;
  return {
    page: row.number,
    first: from,
    account: row.account,
    organization: row.organization,
    provider: row.provider,
    fetchedMs: row.fetchedMs,
    hasLineBreaks: scanned.hasLineBreaks,
    bytes: new Uint8Array(scanned.bytes.subarray(start, scanned.columns[(to - 1) * STRIDE + 1]!)),
    columns,
    timesMs: scanned.timesMs.slice(from, to) as Float64Array<ArrayBuffer>,
    runs: new Uint8Array(scanned.runs.subarray(from, to)),
    identities: identities && new Uint8Array(identities.subarray(from * IDENTITY_BYTES, to * IDENTITY_BYTES)),
    twins: copied,
  };
}

/** The events of a slice by their place in it. */
export function eventsOf(slice: PageSlice): (at: number) => JournalEvent {
  const { page: number, account, organization, provider, fetchedMs, twins } = slice;
  const { columns, timesMs, runs, hasLineBreaks } = slice;
  const bytes = bufferOf(slice.bytes);
  const scanned = { bytes, count: timesMs.length, columns, timesMs, shapes: NONE, runs, hasLineBreaks };
  const stored: StoredPage = {
    row: { number, account, provider, fetchedMs },
    first: slice.first,
    scanned,
    body: undefined,
    identities: slice.identities && bufferOf(slice.identities),
    records: undefined,
    twins,
    organizations: organizationsOf(scanned, organization),
  };
  return (at) => new StoredEvent(stored, at);
}

/** Only the journal's own pages are asked for shapes. */
const NONE = new Int32Array(0);

function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array<ArrayBuffer>): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

interface StoredPage {
  readonly row: Pick<PageRow, "number" | "account" | "provider" | "fetchedMs">;
  /** The index in the page of the event at 0. */
  readonly first: number;
  readonly scanned: ScannedPage;
  readonly body: Buffer | undefined;
  readonly identities: Buffer | undefined;
  readonly records: EventRecords | undefined;
  /** By index, the identities of events that share another's. */
  readonly twins: Readonly<Record<string, string>>;
  organizations(index: number): string | null;
}

/** Neighbours are mostly of one organization: its text is decoded once for all of them. */
function organizationsOf(scanned: ScannedPage, otherwise: string | null): StoredPage["organizations"] {
  let known = -2;
  let organization: string | null = null;
  return (index) => {
    const isSame = index === known || (index === known + 1 && scanned.runs[index] === 1);
    if (!isSame) organization = fieldText(scanned, index, FIELD.organization)?.toLowerCase() || otherwise;
    known = index;
    return organization;
  };
}

class StoredLines implements Lines {
  readonly #stored: StoredPage;

  constructor(stored: StoredPage) {
    this.#stored = stored;
  }

  event(index: number): JournalEvent {
    return new StoredEvent(this.#stored, index);
  }
  get fetchedAtMs(): number {
    return this.#stored.row.fetchedMs;
  }
  bytes(from: number, to: number): Uint8Array {
    const { bytes, columns } = this.#stored.scanned;
    const start = columns[from * STRIDE]!;
    return bytes.subarray(start, start + this.size(from, to));
  }
  size(from: number, to: number): number {
    const { columns } = this.#stored.scanned;
    return columns[(to - 1) * STRIDE + 1]! + 1 - columns[from * STRIDE]!;
  }
  alikeFrom(from: number, to: number): number {
    return alikeFrom(this.#stored.scanned, from, to);
  }
  frames(from: number, to: number): Uint8Array | undefined {
    const { body, scanned } = this.#stored;
    if (body === undefined) return undefined;
    const start = scanned.columns[from * STRIDE]! - scanned.columns[0]!;
    return framesOf(body, start, start + this.size(from, to));
  }
  answers(from: number, to: number): Int32Array | undefined {
    return this.#stored.records?.answers.subarray(2 * from, 2 * to);
  }
}

/** Decodes a field when it is asked for: most sinks need few of them. */
class StoredEvent implements JournalEvent {
  readonly index: number;
  readonly #at: number;
  readonly #stored: StoredPage;
  /** Formats and sinks both ask for it. */
  #identity: string | undefined;

  constructor(stored: StoredPage, at: number) {
    this.#stored = stored;
    this.#at = at;
    this.index = stored.first + at;
  }

  get bytes(): Uint8Array {
    const { bytes, columns } = this.#stored.scanned;
    const start = columns[this.#at * STRIDE]!;
    // Cheaper than a slice, which would be a Buffer.
    return new Uint8Array(bytes.buffer, bytes.byteOffset + start, this.size);
  }
  get size(): number {
    return eventSize(this.#stored.scanned, this.#at);
  }
  get isOneLine(): boolean {
    return !this.#stored.scanned.hasLineBreaks;
  }
  get account(): string {
    return this.#stored.row.account;
  }
  get organization(): string | null {
    return this.#stored.organizations(this.#at);
  }
  get provider(): string | null {
    return this.#stored.row.provider;
  }
  get service(): string {
    return fieldText(this.#stored.scanned, this.#at, FIELD.service) ?? "";
  }
  get eventType(): string {
    return fieldText(this.#stored.scanned, this.#at, FIELD.eventType) ?? "";
  }
  get timestamp(): string {
    return fieldText(this.#stored.scanned, this.#at, FIELD.timestamp) ?? "";
  }
  get timestampMs(): number {
    return eventTimeMs(this.#stored.scanned, this.#at) ?? this.#stored.row.fetchedMs;
  }
  get id(): string | undefined {
    return fieldText(this.#stored.scanned, this.#at, FIELD.id);
  }
  get correlationId(): string | undefined {
    return fieldText(this.#stored.scanned, this.#at, FIELD.correlationId);
  }
  get identity(): string {
    this.#identity ??= this.#madeIdentity();
    return this.#identity;
  }
  #madeIdentity(): string {
    const twin = this.#stored.twins[this.#at];
    if (twin !== undefined) return twin;
    const { identities } = this.#stored;
    if (identities !== undefined)
      return identities.toString("hex", this.#at * IDENTITY_BYTES, (this.#at + 1) * IDENTITY_BYTES);
    return identityAt(this.#stored.scanned, this.#at, this.organization, this.#stored.row.provider);
  }
  get fetchedAtMs(): number {
    return this.#stored.row.fetchedMs;
  }
  get page(): number {
    return this.#stored.row.number;
  }
}
