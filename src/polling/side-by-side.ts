import { setMaxListeners } from "node:events";
import type { createWake } from "../core/wake.ts";

export interface SideBySide<Piece> {
  /** The next piece; `fail` reports an error of work that goes on meanwhile. */
  next(fail: (error: unknown) => void): Promise<Piece | "idle" | "done">;
  perform(piece: Piece): Promise<void>;
  /** How long to wait for the next piece while so many are under way. */
  idleMs(underWay: number): number;
  readonly piecesMax: number;
  readonly wake: ReturnType<typeof createWake>;
}

/** Works on pieces side by side until there are no more; the first error stops it. */
export async function workSideBySide<Piece>(
  { next, perform, idleMs, piecesMax, wake }: SideBySide<Piece>,
  signal: AbortSignal,
): Promise<void> {
  // Every piece under way listens to it, and their number is bounded.
  setMaxListeners(0, signal);
  const underWay = new Set<Promise<void>>();
  const failure: { error?: unknown } = {};
  const fail = (error: unknown) => {
    failure.error ??= error;
    wake.wake();
  };
  while (!signal.aborted && failure.error === undefined) {
    const mark = wake.mark();
    const found = underWay.size < piecesMax ? await next(fail).catch(fail) : "idle";
    if (found === "done") break;
    if (found === "idle" || found === undefined) {
      await wake.waitSince(mark, idleMs(underWay.size), signal);
      continue;
    }
    const piece: Promise<void> = perform(found as Piece)
      .catch(fail)
      .finally(() => underWay.delete(piece));
    underWay.add(piece);
  }
  await Promise.all(underWay);
  if (failure.error !== undefined && !signal.aborted) throw failure.error;
}
