import type { JournalEvent } from "./event.ts";
import { IDENTITY_BYTES, preparePage, UNDATED_MS } from "./prepare-page.ts";
import { eventBytes, eventSize, FIELD, fieldText } from "./scanner.ts";

const PROVIDER = "provider:";
const COMMA = 0x2c;

/**
 * Events of one owner of an archive, made again from their bytes. All their fields depend on the bytes and the
 * owner alone, so an event is the same before and after it is closed.
 */
export function heldEvents(owner: string, slices: readonly Uint8Array[]): JournalEvent[] {
  const isOrganization = !/^(provider|account):/.test(owner);
  const provider = owner.startsWith(PROVIDER) ? owner.slice(PROVIDER.length) : null;
  const page = preparePage(arrayOf(slices), { organizations: isOrganization ? [owner] : [], provider });
  const { scanned } = page;
  return Array.from({ length: scanned.count }, (_, index): JournalEvent => {
    const timestampMs = page.timesMs[index]!;
    return {
      bytes: eventBytes(scanned, index),
      size: eventSize(scanned, index),
      account: owner.startsWith("account:") ? owner.slice("account:".length) : "",
      organization: isOrganization ? owner : null,
      provider,
      service: fieldText(scanned, index, FIELD.service) ?? "",
      eventType: fieldText(scanned, index, FIELD.eventType) ?? "",
      timestamp: fieldText(scanned, index, FIELD.timestamp) ?? "",
      timestampMs,
      id: fieldText(scanned, index, FIELD.id),
      correlationId: fieldText(scanned, index, FIELD.correlationId),
      identity: page.identities.toString("hex", index * IDENTITY_BYTES, (index + 1) * IDENTITY_BYTES),
      fetchedAtMs: timestampMs === UNDATED_MS ? 0 : timestampMs,
      page: 0,
      index,
    };
  });
}

/** Sorts before every real time. */
export const UNDATED_NS = -9_000_000_000_000_000_000n;

/** 64 bits of nanoseconds reach from 1677 to 2262. Earlier and later times, which no clock gave, count as these. */
const EARLIEST_NS = -7_000_000_000_000_000_000n;
const LATEST_NS = 9_000_000_000_000_000_000n;

/** Nanoseconds since the epoch, at the precision of the timestamp. */
export function eventTimeNs({ timestampMs, timestamp }: JournalEvent): bigint {
  if (timestampMs === UNDATED_MS) return UNDATED_NS;
  const beyondMs = /\.\d{3}(\d{1,6})/.exec(timestamp)?.[1] ?? "";
  const timeNs = BigInt(timestampMs) * 1_000_000n + BigInt(beyondMs.padEnd(6, "0"));
  if (timeNs > LATEST_NS) return LATEST_NS;
  return timeNs < EARLIEST_NS ? EARLIEST_NS : timeNs;
}

function arrayOf(slices: readonly Uint8Array[]): Buffer {
  const length = slices.reduce((sum, slice) => sum + slice.length + 1, 0);
  const array = Buffer.allocUnsafe(Math.max(2, length + 1));
  let at = 1;
  for (const slice of slices) {
    array.set(slice, at);
    at += slice.length;
    array[at++] = COMMA;
  }
  array[0] = 0x5b;
  array[array.length - 1] = 0x5d;
  return array;
}
