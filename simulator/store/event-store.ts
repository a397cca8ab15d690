import type { Instant } from "../../src/query/instant.ts";
import { openByteLog } from "./byte-log.ts";
import { createColumns, growColumns } from "./columns.ts";
import { createSortedIndex, type SortedIndex } from "./sorted-index.ts";

/** Facts about an event beside its bytes. */
export interface EventFacts {
  readonly ms: number;
  readonly ns: number;
  /** When it becomes visible to queries, on the simulator's clock. */
  readonly visibleAt: number;
  /** Number of the organization; 0 is the provider's own portal. */
  readonly organization: number;
  readonly service: number;
}

/** Every event of the world in the order of time. Number n is the n-th event that was added. */
export interface EventStore {
  add(text: string | Uint8Array, facts: EventFacts): number;
  count(): number;
  bytes(): number;
  /** Total order: timestamp at full precision, then number. */
  compare(a: number, b: number): number;
  compareInstant(event: number, instant: Instant): number;
  ms(event: number): number;
  organizationOf(event: number): number;
  serviceOf(event: number): number;
  visibleAt(event: number): number;
  /** The whole order, and that of one organization. */
  all: SortedIndex;
  ofOrganization(organization: number): SortedIndex;
  /** Number of a service's name; made on first sight. */
  serviceNumber(name: string): number;
  serviceNames(): readonly string[];
  /** One event's bytes. */
  read(event: number): Buffer;
  /** These events as a JSON array, in one buffer of exactly that length. */
  readArray(events: Uint32Array, count: number, allocate?: (bytes: number) => Buffer): Buffer;
  close(): void;
}

/** Reading across unwanted bytes is cheaper than another system call up to about this gap. */
const gapBytesMax = 8192;
const spanBytesMax = 4 << 20;

export function createEventStore(): EventStore {
  const log = openByteLog();
  let capacity = 1024;
  let columns = createColumns(capacity);
  let count = 0;
  const services = new Map<string, number>();
  const compare = (a: number, b: number) =>
    columns.ms[a]! - columns.ms[b]! || columns.ns[a]! - columns.ns[b]! || a - b;
  const all = createSortedIndex(compare);
  const byOrganization: SortedIndex[] = [];

  function ofOrganization(organization: number): SortedIndex {
    byOrganization[organization] ??= createSortedIndex(compare);
    return byOrganization[organization];
  }

  function readArray(events: Uint32Array, wanted: number, allocate = Buffer.allocUnsafe): Buffer {
    let bytes = 2 + Math.max(0, wanted - 1);
    for (let i = 0; i < wanted; i++) bytes += columns.length[events[i]!]!;
    const target = allocate(bytes);
    target[0] = 0x5b;
    let at = 1;
    for (let i = 0; i < wanted; ) {
      const span = spanFrom(events, i, wanted);
      at = span.exact ? copyWhole(span, target, at) : copyScattered(events, i, span, target, at);
      i = span.next;
    }
    // Every event brought its comma; the last one's place is the closing bracket's.
    target[wanted === 0 ? 1 : at - 1] = 0x5d;
    return target;
  }

  /** As many of the following events as lie close together in the file, in file order. */
  function spanFrom(events: Uint32Array, first: number, wanted: number): Span {
    const start = columns.offset[events[first]!]!;
    let end = start + columns.length[events[first]!]! + 1;
    let next = first + 1;
    let exact = true;
    for (; next < wanted; next++) {
      const offset = columns.offset[events[next]!]!;
      const gap = offset - end;
      const after = offset + columns.length[events[next]!]! + 1;
      if (gap < 0 || gap > gapBytesMax || after - start > spanBytesMax) break;
      if (gap > 0) exact = false;
      end = after;
    }
    return { start, end, next, exact };
  }

  function copyWhole(span: Span, target: Buffer, at: number): number {
    const bytes = Math.min(span.end - span.start, target.length - at);
    log.read(span.start, bytes, target, at);
    return at + span.end - span.start;
  }

  function copyScattered(events: Uint32Array, first: number, span: Span, target: Buffer, at: number): number {
    const scratch = Buffer.allocUnsafe(span.end - span.start);
    log.read(span.start, scratch.length, scratch, 0);
    for (let i = first; i < span.next; i++) {
      const from = columns.offset[events[i]!]! - span.start;
      const bytes = columns.length[events[i]!]! + 1;
      scratch.copy(target, at, from, from + bytes);
      at += bytes;
    }
    return at;
  }

  return {
    add(text, facts) {
      if (count === capacity) {
        capacity *= 2;
        columns = growColumns(columns, capacity);
      }
      const event = count++;
      columns.offset[event] = log.length();
      columns.length[event] = log.append(text);
      columns.ms[event] = facts.ms;
      columns.ns[event] = facts.ns;
      columns.visibleAt[event] = facts.visibleAt;
      columns.organization[event] = facts.organization;
      columns.service[event] = facts.service;
      all.add(event);
      ofOrganization(facts.organization).add(event);
      return event;
    },
    count: () => count,
    bytes: () => log.length(),
    compare,
    compareInstant: (event, instant) => columns.ms[event]! - instant.ms || columns.ns[event]! - instant.ns,
    ms: (event) => columns.ms[event]!,
    organizationOf: (event) => columns.organization[event]!,
    serviceOf: (event) => columns.service[event]!,
    visibleAt: (event) => columns.visibleAt[event]!,
    all,
    ofOrganization,
    serviceNumber(name) {
      const known = services.get(name);
      if (known !== undefined) return known;
      services.set(name, services.size);
      return services.size - 1;
    },
    serviceNames: () => [...services.keys()],
    read(event) {
      const bytes = Buffer.allocUnsafe(columns.length[event]!);
      log.read(columns.offset[event]!, bytes.length, bytes, 0);
      return bytes;
    },
    readArray,
    close: () => log.close(),
  };
}

interface Span {
  readonly start: number;
  readonly end: number;
  readonly next: number;
  /** The span holds nothing but wanted events. */
  readonly exact: boolean;
}
