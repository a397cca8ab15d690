import type { Clock } from "../core/clock.ts";
import type { Metrics } from "../core/metrics.ts";
import type { Roster } from "../core/roster.ts";
import type { RatesView } from "../core/view/status.ts";

const BUCKET_MS = 5000;
const BUCKETS = 720;
const SINKS_MAX = 100;

/** Keeps the last hour of the counts that the parts report anyway. */
export function createRates(metrics: Metrics, clock: Clock) {
  const received = createRing();
  const live = createRing();
  const sent = new Map<string, ReturnType<typeof createRing>>();
  const startedBucket = Math.floor(clock.now() / BUCKET_MS);
  const bucketNow = () => Math.floor(clock.now() / BUCKET_MS);

  const counting: Metrics = {
    ...metrics,
    add(name, value, attributes) {
      metrics.add(name, value, attributes);
      if (name === "tidemark_journal_appended_events_total") received.add(bucketNow(), value);
      else if (name === "tidemark_sink_sent_events_total")
        ringOf(String(attributes?.sink ?? ""))?.add(bucketNow(), value);
    },
  };

  function ringOf(sink: string) {
    const known = sent.get(sink);
    if (known !== undefined || sent.size >= SINKS_MAX) return known;
    const ring = createRing();
    sent.set(sink, ring);
    return ring;
  }

  return {
    /** The parts get this instead of the metrics themselves. */
    metrics: counting,
    /** The roster learns which new events were read live; the others are history. */
    countLive: (roster: Roster): Roster => ({
      ...roster,
      addEvents(account, byOrganization, isLive) {
        roster.addEvents(account, byOrganization, isLive);
        if (!isLive) return;
        for (const { events } of byOrganization.values()) live.add(bucketNow(), events);
      },
    }),
    view(): RatesView {
      const to = bucketNow();
      const from = Math.max(startedBucket, to - BUCKETS + 1);
      return {
        bucketMs: BUCKET_MS,
        fromMs: from * BUCKET_MS,
        received: received.list(from, to),
        live: live.list(from, to),
        sent: Object.fromEntries([...sent].map(([name, ring]) => [name, ring.list(from, to)])),
      };
    },
  };
}

/** Counts by bucket; a bucket's slot is reused an hour later. */
function createRing() {
  const counts = new Float64Array(BUCKETS);
  const owners = new Float64Array(BUCKETS);
  return {
    add(bucket: number, value: number): void {
      const at = bucket % BUCKETS;
      if (owners[at] !== bucket) counts[at] = 0;
      owners[at] = bucket;
      counts[at]! += value;
    },
    list: (from: number, to: number): number[] =>
      Array.from({ length: Math.max(0, to - from + 1) }, (_, offset) => {
        const at = (from + offset) % BUCKETS;
        return owners[at] === from + offset ? (counts[at]! * 1000) / BUCKET_MS : 0;
      }),
  };
}
