import type { ArchiveConfig } from "../../archive/config.ts";
import { openStore } from "../../archive/open.ts";
import type { ArchiveStore } from "../../archive/store/store.ts";
import type { Clock } from "../../core/clock.ts";
import type { PageStaging } from "../../journal/archive/pages.ts";

/*
 * The archive of a lane. Any machine may continue it, so everything that it needs is in the lane's state or in the
 * shared store: parts that were built on another machine are built again, and pages that leave the journal are staged
 * in the store, beside the archive. Each lane has a log of its own, and only the lane's owner can propose entries for
 * it: a proposal is a commit of the lane, which Kafka refuses to a machine that was fenced.
 */

/** A store that begins no write unless the lane is known to be ours (C9). */
export function guardedStore(store: ArchiveStore, beforeEffect: () => void): ArchiveStore {
  const guarded =
    <Values extends unknown[]>(write: (...values: Values) => Promise<void>) =>
    async (...values: Values): Promise<void> => {
      beforeEffect();
      await write(...values);
    };
  return {
    ...store,
    create: guarded(store.create),
    replace: guarded(store.replace),
    remove: guarded(store.remove),
  };
}

/** Pages in the store of the archive, outside of it: its verification knows every file inside. */
export function stageInStore(
  { store }: Pick<ArchiveConfig, "store">,
  clock: Clock,
  beforeEffect: () => void,
): PageStaging & { close(): Promise<void> } {
  if (!("s3" in store)) throw new Error("The archive of a lane is in S3.");
  const { objectLock: _, ...unlocked } = store.s3;
  const place = { s3: { ...unlocked, prefix: (store.s3.prefix ?? "").replace(/\/$/, ".staging/") } };
  let opened: Promise<ArchiveStore> | undefined;
  const open = () => {
    opened ??= openStore(place, clock).then((own) => guardedStore(own, beforeEffect));
    return opened;
  };
  const pathOf = (number: number) => `${number}.page`;
  return {
    // Replaced, not created: what a crash left there is the same page.
    write: async (number, body) => (await open()).replace(pathOf(number), body),
    async read(number) {
      const store = await open();
      const body = await store.read(pathOf(number));
      if (body !== undefined) return body;
      throw new Error(
        `${store.place}/${pathOf(number)} is missing: the journal has moved this page there until its days are closed. Restore it; the archive goes on by itself then.`,
      );
    },
    remove: async (number) => (await open()).remove(pathOf(number)),
    close: async () => (await opened)?.close(),
  };
}
