import {
  BIRTH_KEY,
  type Changelog,
  FencedError,
  type LaneBirth,
  type LaneLog,
  type LogBatch,
  type LogName,
  type StoredRecord,
} from "../src/core/changelog.ts";

/** The model, with the faults that a test can cause. */
export interface ModelChangelog extends Changelog {
  /** Makes the lanes, as `cluster create` does. */
  create(cluster: string, lanes: number): void;
  /** Keeps the newest record of every key, as Kafka's cleaner does. */
  compact(lane: number, options?: { readonly removals: "keep" | "drop" }): void;
  /** Loses everything from an offset on. */
  truncate(lane: number, from: number): void;
  /** The log is empty and begins again, as a topic that was deleted and made again. */
  replace(lane: number, log: LogName): void;
  /** The next commit: `before` fails without effect, `after` takes effect and fails. */
  failNext(when: "before" | "after"): void;
  /** Every commit waits for this first. */
  delay: () => Promise<void>;
  readonly commits: number;
}

interface ModelLane {
  readonly logs: Record<LogName, StoredRecord[]>;
  readonly next: Record<LogName, number>;
  epoch: number;
}

const SLICE = 100;

/** An in-process changelog that passes the same contract suite as Kafka. */
export function createModelChangelog(now: () => number = Date.now): ModelChangelog {
  const lanes = new Map<number, ModelLane>();
  let failing: "before" | "after" | undefined;
  let commits = 0;

  function laneOf(lane: number): ModelLane {
    const known = lanes.get(lane) ?? {
      logs: { rows: [], bodies: [] },
      next: { rows: 0, bodies: 0 },
      epoch: 0,
    };
    lanes.set(lane, known);
    return known;
  }

  function append(lane: ModelLane, log: LogName, records: LogBatch["rows"]): number | undefined {
    const first = lane.next[log];
    for (const { key, value } of records)
      lane.logs[log].push({
        key,
        value: value === null ? null : Uint8Array.from(value),
        offset: lane.next[log]++,
        timeMs: now(),
      });
    // Kafka's marker at the end of a transaction takes an offset too.
    if (records.length > 0) lane.next[log]++;
    return records.length > 0 ? first : undefined;
  }

  const model: ModelChangelog = {
    create(cluster, count) {
      for (let lane = 0; lane < count; lane++) {
        const birth: LaneBirth = { cluster, lane, lanes: count, hash: "sha256-48" };
        append(laneOf(lane), "rows", [{ key: BIRTH_KEY, value: Buffer.from(JSON.stringify(birth)) }]);
      }
    },
    compact(number, { removals } = { removals: "keep" }) {
      const lane = laneOf(number);
      const newest = new Map(lane.logs.rows.map((record) => [record.key, record.offset]));
      lane.logs.rows = lane.logs.rows.filter(
        ({ key, offset, value }) => newest.get(key) === offset && (value !== null || removals === "keep"),
      );
    },
    truncate(number, from) {
      const lane = laneOf(number);
      lane.logs.rows = lane.logs.rows.filter(({ offset }) => offset < from);
      lane.next.rows = from;
    },
    replace(number, log) {
      const lane = laneOf(number);
      lane.logs[log] = [];
      lane.next[log] = 0;
    },
    failNext(when) {
      failing = when;
    },
    delay: async () => {},
    get commits() {
      return commits;
    },
    async birth(number) {
      const record = lanes.get(number)?.logs.rows.find(({ key }) => key === BIRTH_KEY);
      return record && (JSON.parse(Buffer.from(record.value!).toString()) as LaneBirth);
    },
    async open(number): Promise<LaneLog> {
      const lane = laneOf(number);
      const epoch = ++lane.epoch;
      return {
        lane: number,
        async commit({ rows, bodies }) {
          await model.delay();
          if (lane.epoch !== epoch) throw new FencedError(`another writer has taken lane ${number}`);
          const fault = failing;
          failing = undefined;
          if (fault === "before") throw new Error("the log did not take the commit");
          const bodyOffset = append(lane, "bodies", bodies);
          append(lane, "rows", rows);
          commits++;
          if (fault === "after") throw new Error("the answer to the commit was lost");
          return { rowOffset: lane.logs.rows.at(-1)!.offset, bodyOffset };
        },
        async *read(log, from, signal) {
          const records = lane.logs[log].filter(({ offset }) => offset >= from);
          for (let at = 0; at < records.length; at += SLICE) {
            signal.throwIfAborted();
            yield records.slice(at, at + SLICE);
          }
        },
        async dropBodies(before) {
          lane.logs.bodies = lane.logs.bodies.filter(({ offset }) => offset >= before);
        },
        async close() {},
      };
    },
  };
  return model;
}
