import type { Random } from "../random.ts";
import { activity } from "./rhythm.ts";
import type { Traffic } from "./traffic.ts";

/** Around every this many events several share one timestamp, so that pages end in the middle of equal ones. */
const tieEvery = 100;
const tieRadius = 2;

export interface HistorySpan {
  readonly count: number;
  readonly startMs: number;
  readonly endMs: number;
  /** Events of the provider's portal do not count for page edges: no query mixes them with the others. */
  readonly isPortal: (event: number) => boolean;
}

/** Fills the time before `endMs` with exactly so many events, following the rhythm of days. */
export function writeHistory(traffic: Traffic, random: Random, span: HistorySpan): void {
  const { count, startMs, endMs } = span;
  const slots = Math.max(1, Math.ceil((endMs - startMs) / 3_600_000));
  const slotMs = (endMs - startMs) / slots;
  const edges = new Float64Array(slots + 1);
  for (let slot = 0; slot < slots; slot++) {
    edges[slot + 1] = edges[slot]! + activity(startMs + (slot + 0.5) * slotMs);
  }
  let slot = 0;
  let ordinary = 0;
  for (let n = 0; n < count; n++) {
    const quantile = ((n + random.float()) / count) * edges[slots]!;
    while (slot < slots - 1 && edges[slot + 1]! <= quantile) slot++;
    const share = (quantile - edges[slot]!) / (edges[slot + 1]! - edges[slot]!);
    const ms = Math.min(Math.floor(startMs + (slot + share) * slotMs), endMs - 1);
    const near = ordinary % tieEvery;
    const edge = ordinary > tieRadius && (near > tieEvery - tieRadius || near < tieRadius);
    const same = edge || random.chance(0.01);
    const event = traffic.emit({ ms, ns: random.below(1_000_000), same, latestMs: endMs - 1 });
    if (!span.isPortal(event)) ordinary++;
  }
}
