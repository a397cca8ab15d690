/** How many cases a test of random ones tries; TIDEMARK_RUNS=20 tries twenty times as many. */
export function runs(usual: number): number {
  return Math.max(1, Math.round(usual * Number(process.env.TIDEMARK_RUNS ?? 1)));
}
