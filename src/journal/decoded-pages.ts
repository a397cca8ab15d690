import type { Position } from "../core/position.ts";
import { createReadersLag } from "./readers-lag.ts";
import type { Decoded } from "./stored-page.ts";

/** Pages that were decoded again from disk are kept up to this. */
const REREAD_BYTES_MAX = 24_000_000;
/** A reader keeps up while it is at most so many pages behind the newest. */
const NEAR_PAGES = 8;
/** Pages that stay for the readers that are about to read them while memory is short. */
const NEXT_PAGES_MAX = 2;

/**
 * Pages that stay decoded, so that readers neither decompress nor scan them again. The newest ones stay until
 * every reader that keeps up has read past them; the page gate drops them earlier when memory runs short.
 */
export function createDecodedPages() {
  const pages = new Map<number, Decoded>();
  /** How far each reader has read, as of its last call. */
  const positions = new Map<string, Position>();
  const lag = createReadersLag(positions);
  const reread = new Set<number>();
  let rereadBytes = 0;

  function remove(number: number): void {
    const page = pages.get(number);
    if (page === undefined) return;
    pages.delete(number);
    if (reread.delete(number)) rereadBytes -= page.scanned.bytes.length;
    page.lease.release();
  }

  function isWanted(number: number, events: number): boolean {
    for (const { page, event } of positions.values()) {
      const isPast = page > number || (page === number && event >= events);
      if (!isPast && page >= number - NEAR_PAGES) return true;
    }
    return false;
  }

  /** Whether a reader is in the middle of the page, or right before it. */
  function isNext(number: number, events: number): boolean {
    for (const { page, event } of positions.values())
      if (page === number ? event < events : page === number - 1) return true;
    return false;
  }

  function dropUnwanted(): void {
    for (const [number, { scanned }] of pages) if (!isWanted(number, scanned.count)) remove(number);
  }

  return {
    get: (number: number) => pages.get(number),
    /** A page that was just appended, for all readers or for one alone. Takes over the lease. */
    putNew(number: number, page: Decoded, isForAll: boolean): void {
      remove(number);
      pages.set(number, page);
      if (isForAll) lag.appended(number, page.scanned.count);
      dropUnwanted();
    },
    /** A page that was read from disk for a reader. Takes over the lease. */
    putOld(number: number, page: Decoded): void {
      remove(number);
      pages.set(number, page);
      reread.add(number);
      rereadBytes += page.scanned.bytes.length;
      for (const oldest of reread) {
        if (rereadBytes <= REREAD_BYTES_MAX) break;
        remove(oldest);
      }
    },
    passed(reader: string, position: Position): void {
      positions.set(reader, position);
      dropUnwanted();
      lag.moved();
    },
    isBehind: lag.isBehind,
    hasMore: lag.hasMore,
    giveUp: lag.giveUp,
    onMove: lag.onMove,
    forgetReader(reader: string): void {
      positions.delete(reader);
      dropUnwanted();
      lag.moved();
    },
    /**
     * Drops the oldest page that no reader is about to read; false when there is none. A page that a slow reader is
     * in the middle of would be decoded again for its next batch, and dropped again.
     */
    dropOldest(): boolean {
      let kept = 0;
      for (const [number, { scanned }] of pages) {
        if (isNext(number, scanned.count) && kept++ < NEXT_PAGES_MAX) continue;
        remove(number);
        return true;
      }
      return false;
    },
  };
}
