import { FULL_PAGE_EVENTS } from "./page-gate.ts";

/** Columns of an event in a scanned page. */
export const STRIDE = 14;
export const IDENTITY_BYTES = 16;

/**
 * Arrays that are filled while the number of events in a page is not known yet. They belong to an engine and are
 * reused for every page, so that a page leaves nothing to collect.
 */
export interface PageScratch {
  readonly columns: Int32Array;
  readonly timesMs: Float64Array;
  readonly shapes: Int32Array;
  readonly runs: Uint8Array;
  readonly identities: Buffer;
  readonly digests: Uint32Array;
  readonly organizationIndexes: Uint16Array;
}

export function createPageScratch() {
  let arrays = arraysOf(0);
  return {
    /** Room for so many events; what is there already stays. */
    forEvents(count: number): PageScratch {
      if (count > arrays.runs.length) {
        const larger = arraysOf(Math.max(1024, count, 2 * arrays.runs.length));
        larger.columns.set(arrays.columns);
        larger.timesMs.set(arrays.timesMs);
        larger.shapes.set(arrays.shapes);
        larger.runs.set(arrays.runs);
        larger.identities.set(arrays.identities);
        larger.digests.set(arrays.digests);
        larger.organizationIndexes.set(arrays.organizationIndexes);
        arrays = larger;
      }
      return arrays;
    },
    /** Gives the memory back after a page that was larger than any the service sends. */
    done(count: number): void {
      if (count > FULL_PAGE_EVENTS) arrays = arraysOf(0);
    },
  };
}

function arraysOf(events: number): PageScratch {
  return {
    columns: new Int32Array(events * STRIDE),
    timesMs: new Float64Array(events),
    shapes: new Int32Array(2 * events),
    runs: new Uint8Array(events),
    identities: Buffer.allocUnsafeSlow(events * IDENTITY_BYTES),
    digests: new Uint32Array(events),
    organizationIndexes: new Uint16Array(events),
  };
}
