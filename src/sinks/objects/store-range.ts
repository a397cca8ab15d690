import { RetryableError, TooLargeError } from "../../core/errors.ts";

/*
 * storeRange stores the records of a partition as one object, or in pieces where the destination refuses it as too
 * large. Delivery would halve the batch; then the objects of other partitions, which are stored already, would get other
 * keys and be stored a second time.
 *
 *   1. The object of a range is created under a key that names the range's first record only.
 *   2. Refused as too large: the first half is stored under the same key, then the second half under its own. The same
 *      records are always halved at the same place.
 *   3. One record that is refused alone is given back. An object without records keeps its key.
 *
 * A key that is taken by the beginning of a range says that the range was halved before a crash. The first half keeps
 * the key taken, so the whole range cannot be stored beside its pieces, even if the destination takes it now.
 */
export interface RangeStore {
  /** False: the key is taken. */
  create(range: RecordRange): Promise<boolean>;
  /** Whether the taken key holds exactly these records; undefined: there is no such object any more. */
  holds(range: RecordRange): Promise<boolean | undefined>;
  /** Another journal's object is at the key. */
  foreign(range: RecordRange): Error;
}

/** Indexes into the records of the partition. Where `to` is `from`, an object without records. */
export interface RecordRange {
  readonly from: number;
  readonly to: number;
}

/** The index of a record that was refused alone, and why. */
export interface RefusedRecord {
  readonly index: number;
  readonly error: TooLargeError;
}

/**
 * Stores a batch as one object. TooLargeError: nothing of it is stored, so delivery may halve the batch, whose halves
 * have other keys.
 */
export async function storeWhole(store: RangeStore, range: RecordRange): Promise<void> {
  try {
    if ((await store.create(range)) || (await isHeld(store, range))) return;
  } catch (error) {
    if (!(error instanceof TooLargeError)) throw error;
    // An earlier attempt may have stored it when the limit was higher, and its answer was lost.
    const isHere = await store.holds(range);
    if (isHere) return;
    if (isHere === undefined) throw error;
  }
  throw store.foreign(range);
}

export async function storeRange(store: RangeStore, range: RecordRange): Promise<RefusedRecord[]> {
  const { from, to } = range;
  try {
    if ((await store.create(range)) || (await isHeld(store, range))) return [];
    if (!(await isHalved(store, range))) throw store.foreign(range);
    if (to - from === 1)
      return [{ index: from, error: new TooLargeError("The object was refused as too large before.") }];
  } catch (error) {
    if (!(error instanceof TooLargeError)) throw error;
    // The destination may have taken it before, when its limit was higher.
    if (await store.holds(range)) return [];
    if (to - from === 1) return refuse(store, from, error);
  }
  const middle = middleOf(range);
  const first = await storeRange(store, { from, to: middle });
  return [...first, ...(await storeRange(store, { from: middle, to }))];
}

async function refuse(store: RangeStore, index: number, error: TooLargeError): Promise<RefusedRecord[]> {
  const nothing = { from: index, to: index };
  if ((await store.create(nothing)) || (await isHeld(store, nothing))) return [{ index, error }];
  throw store.foreign(nothing);
}

async function isHeld(store: RangeStore, range: RecordRange): Promise<boolean> {
  const isHere = await store.holds(range);
  if (isHere === undefined) throw new RetryableError("An object came and went while it was written.");
  return isHere;
}

/** Whether the key has the beginning of the range: a half, a half of that, and so on, or nothing. */
async function isHalved(store: RangeStore, { from, to }: RecordRange): Promise<boolean> {
  for (let end = to; end > from; ) {
    end = end - from === 1 ? from : middleOf({ from, to: end });
    if (await isHeld(store, { from, to: end })) return true;
  }
  return false;
}

function middleOf({ from, to }: RecordRange): number {
  return from + Math.ceil((to - from) / 2);
}
