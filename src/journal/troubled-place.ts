import { PlaceTakenError } from "../core/page-gate.ts";

/** A stream that has not asked for so long gives up its place in the line. */
const FORGOTTEN_MS = 10_000;

/**
 * The one place of all streams that are known to stall or to send nonsense. Their turns come in the order of their
 * asking, page by page. None waits here: a piece of work that waits would take the place of a good one.
 */
export function createTroubledPlace(steadyMs: () => number) {
  /** When each stream last asked in vain, those that have waited longest first. */
  const line = new Map<string, number>();
  let isTaken = false;

  function forgetGone(): void {
    for (const [stream, askedMs] of line) if (steadyMs() - askedMs > FORGOTTEN_MS) line.delete(stream);
  }

  return {
    /** The result gives the place back. Throws PlaceTakenError. */
    take(stream: string): () => void {
      forgetGone();
      const [first = stream] = line.keys();
      if (isTaken || first !== stream) {
        line.set(stream, steadyMs());
        throw new PlaceTakenError();
      }
      line.delete(stream);
      isTaken = true;
      return () => {
        isTaken = false;
      };
    },
  };
}
