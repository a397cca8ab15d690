/**
 * Ownership of the memory of a page. Every holder of a page's bytes has a lease of its own:
 *
 *   body receiver → prepared page → journal's cache → pages given to readers → batches
 *
 * `retain` gives another holder its lease, `release` ends this one. When the last lease ends the memory goes
 * back to where it came from, and every view of it is invalid from then on. A lease that is released twice, or
 * retained after its release, throws: both are defects of the program.
 */
export interface PageLease {
  /** A lease of its own for another holder of the same bytes. */
  retain(): PageLease;
  release(): void;
  /** The memory was sent to another thread and has come back as these bytes. */
  moved(bytes: Buffer): void;
}

/** Bytes of a page, and the lease that the receiver of this object now holds. */
export interface LeasedBytes {
  readonly bytes: Buffer;
  readonly lease: PageLease;
}

export class LeaseError extends Error {
  override readonly name = "LeaseError";
}

/** The first lease on these bytes; `onFree` gets them when the last one has ended. */
export function leaseOf(bytes: Buffer, onFree: (bytes: Buffer) => void): PageLease {
  return new Lease({ bytes, holders: 0, onFree });
}

interface Memory {
  bytes: Buffer;
  holders: number;
  readonly onFree: (bytes: Buffer) => void;
}

class Lease implements PageLease {
  readonly #memory: Memory;
  #isReleased = false;

  constructor(memory: Memory) {
    this.#memory = memory;
    memory.holders++;
  }

  retain(): PageLease {
    if (this.#isReleased) throw new LeaseError("A page's memory was retained through a released lease.");
    return new Lease(this.#memory);
  }

  release(): void {
    if (this.#isReleased) throw new LeaseError("A lease on a page's memory was released twice.");
    this.#isReleased = true;
    const memory = this.#memory;
    if (--memory.holders === 0) memory.onFree(memory.bytes);
  }

  moved(bytes: Buffer): void {
    this.#memory.bytes = bytes;
  }
}
