import type { FoundOffset, KafkaBrokers, KafkaClient, Touched } from "../../core/kafka.ts";
import { comparePositions, type Position } from "../../core/position.ts";
import type { Written } from "./positions.ts";

interface ToEnd {
  readonly id: string;
  readonly transactionTimeout: number;
  readonly newest: readonly Written[];
  /** The position as it was last committed here. */
  readonly committed: Position;
  /** Journals that ours continues; all of their positions were committed. */
  readonly earlierJournals?: ReadonlySet<string> | undefined;
}

/**
 * Ends the parts of our newest transaction that are still open although InitProducerId has completed it: a broker that
 * is fenced or restarted takes partitions without a leader for deleted ones and leaves out their markers (KAFKA-20734,
 * 4.3.1). Our next marker in such a partition would decide over the hanging events too: a commit would publish the
 * events of an aborted transaction, an abort would remove those of a committed one.
 *
 * A partition knows one open transaction per producer id, whatever its epoch: an empty transaction of the
 * same id that names the partition ends it with its own marker. True when that was tried: it has taken the
 * producer's epoch.
 */
export function endHanging(client: KafkaClient, { newest, ...ours }: ToEnd): Promise<boolean> {
  return client.brokers(async (brokers) => {
    const doubtful: { readonly written: Written; readonly open: readonly Touched[] }[] = [];
    for (const written of newest) {
      const open = await openAmong(brokers, written.touched);
      if (open.length > 0) doubtful.push({ written, open });
    }
    if (doubtful.length === 0) return false;
    const identity = await brokers.initProducer({ id: ours.id, timeoutMs: ours.transactionTimeout });
    const hanging = doubtful.find(({ written }) => written.producerId === identity.producerId);
    if (!hanging) return true;
    const isCommitted = hanging.written.isCommitted ?? isAcknowledged(hanging.written, ours);
    await brokers.endTransaction(ours.id, identity, hanging.open, isCommitted ? "commit" : "abort");
    return true;
  });
}

/**
 * The position was committed here only after the brokers had promised to commit the transaction. Without that
 * their decision is not known, and aborting loses nothing: the events are sent again.
 */
function isAcknowledged(
  { position }: Written,
  { committed, earlierJournals }: Omit<ToEnd, "newest">,
): boolean {
  if (earlierJournals?.has(position.journal)) return true;
  return position.journal === committed.journal && comparePositions(position, committed) <= 0;
}

/** Those of the partitions in which any producer's transaction is open. */
async function openAmong(brokers: KafkaBrokers, touched: readonly Touched[]): Promise<readonly Touched[]> {
  // Nothing hangs in a topic that is gone, and we write to none that is forbidden.
  const there: Touched[] = [];
  for (const each of touched) if (await brokers.exists(each.topic)) there.push(each);
  const nameOf = ({ topic, partition }: FoundOffset) => `${topic}/${partition}`;
  const ends = new Map((await brokers.offsets(there, "end")).map((end) => [nameOf(end), end.offset]));
  const behind = (await brokers.offsets(there, "stable")).filter(
    (stable) => stable.offset < ends.get(nameOf(stable))!,
  );
  return there.flatMap(({ topic }) => {
    const partitions = behind.flatMap((each) => (each.topic === topic ? [each.partition] : []));
    return partitions.length > 0 ? [{ topic, partitions }] : [];
  });
}
