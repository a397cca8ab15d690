import type { TimeStretch } from "../plan/sweep-times.ts";

/** Slices closer together than this are read as one. */
const SLICE_GAP_MS = 1000;

/** The stretches in order, with near ones joined. */
export function slicesOf(stretches: readonly TimeStretch[]): TimeStretch[] {
  const slices: { fromMs: number; toMs: number }[] = [];
  for (const { fromMs, toMs } of [...stretches].sort((a, b) => a.fromMs - b.fromMs)) {
    const last = slices.at(-1);
    if (last !== undefined && fromMs - last.toMs <= SLICE_GAP_MS) last.toMs = Math.max(last.toMs, toMs);
    else slices.push({ fromMs, toMs });
  }
  return slices;
}
