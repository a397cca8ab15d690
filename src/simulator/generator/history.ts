import type { Random } from "../random.ts";
import { activity } from "./rhythm.ts";
import type { Traffic } from "./traffic.ts";

/** Around every this many events several share one timestamp, so that pages end in the middle of equal ones. */
const tieEvery = 100;
const tieRadius = 2;

/** Fills the time before `endMs` with exactly so many events, following the rhythm of days. */
export function writeHistory(
  traffic: Traffic,
  random: Random,
  span: { count: number; startMs: number; endMs: number },
): void {
  const { count, startMs, endMs } = span;
  const slots = Math.max(1, Math.ceil((endMs - startMs) / 3_600_000));
  const slotMs = (endMs - startMs) / slots;
  const edges = new Float64Array(slots + 1);
  for (let slot = 0; slot < slots; slot++)
    edges[slot + 1] = edges[slot]! + activity(startMs + (slot + 0.5) * slotMs);
  let slot = 0;
  for (let n = 0; n < count; n++) {
    const quantile = ((n + random.float()) / count) * edges[slots]!;
    while (slot < slots - 1 && edges[slot + 1]! <= quantile) slot++;
    const share = (quantile - edges[slot]!) / (edges[slot + 1]! - edges[slot]!);
    const exactMs = startMs + (slot + share) * slotMs;
    const ms = Math.min(Math.floor(exactMs), endMs - 1);
    const near = n % tieEvery;
    const same = (n > tieRadius && (near > tieEvery - tieRadius || near < tieRadius)) || random.chance(0.01);
    traffic.emit({ ms, ns: random.below(1_000_000), same, latestMs: endMs - 1 });
  }
}
