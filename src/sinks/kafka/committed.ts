/** A record as kafkajs decodes it from a fetch, control records included. */
export interface FetchedRecord {
  readonly offset: string;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly isControlRecord: boolean;
  readonly batchContext: { readonly producerId: string; readonly inTransaction: boolean };
}

interface AbortedTransaction {
  readonly producerId: string;
  readonly firstOffset: string;
}

/** A control record's key is a version and a type; type 0 ends an aborted transaction. */
const ABORT_TYPE = 0;

/**
 * The records of committed transactions. Brokers list aborted transactions in the order of their ends,
 * while a reader meets them in the order of their beginnings; kafkajs's own filter takes the one for the
 * other and would show an aborted position where two sinks share a partition.
 */
export function committedOf(
  records: readonly FetchedRecord[],
  aborted: readonly AbortedTransaction[],
): readonly FetchedRecord[] {
  const coming = aborted
    .map(({ producerId, firstOffset }) => ({ producerId, firstOffset: BigInt(firstOffset) }))
    .sort((a, b) => (a.firstOffset < b.firstOffset ? -1 : a.firstOffset > b.firstOffset ? 1 : 0));
  const aborting = new Set<string>();
  return records.filter((record) => {
    const { producerId, inTransaction } = record.batchContext;
    while (coming.length > 0 && coming[0]!.firstOffset <= BigInt(record.offset)) {
      aborting.add(coming.shift()!.producerId);
    }
    if (record.isControlRecord) {
      if (record.key?.readInt16BE(2) === ABORT_TYPE) aborting.delete(producerId);
      return false;
    }
    return !(inTransaction && aborting.has(producerId));
  });
}
