/** A lane as a machine reports it. */
export interface ReportedLane {
  readonly lane: number;
  readonly state: string;
  readonly sinceMs: number;
}

/**
 * The summaries without lanes that were lost since. A machine that hangs or was killed still says in its last summary that
 * it runs its lanes. Where two machines say so of a lane, it belongs to the one on which it began to run last.
 */
export function withoutLostLanes<
  Of extends { readonly machine: string; readonly lanes: readonly ReportedLane[] },
>(machines: readonly Of[]): readonly Of[] {
  const newest = new Map<number, { readonly machine: string; readonly sinceMs: number }>();
  for (const { machine, lanes } of machines)
    for (const { lane, sinceMs } of lanes.filter(runs)) {
      const known = newest.get(lane);
      if (known === undefined || sinceMs > known.sinceMs) newest.set(lane, { machine, sinceMs });
    }
  return machines.map((one) => ({
    ...one,
    lanes: one.lanes.filter((lane) => !runs(lane) || newest.get(lane.lane)!.machine === one.machine),
  }));
}

/** Lanes of a cluster that no machine runs. One that another machine has begun to open since is not run any more. */
export function lanesWithoutOwner(
  lanes: number,
  machines: readonly { readonly lanes: readonly ReportedLane[] }[],
): readonly number[] {
  const reports = machines.flatMap((machine) => machine.lanes);
  const isRun = (lane: number) => {
    const own = reports.filter((report) => report.lane === lane);
    const openingMs = own.filter(({ state }) => state === "opening").map(({ sinceMs }) => sinceMs);
    return own.some((report) => runs(report) && !openingMs.some((sinceMs) => sinceMs > report.sinceMs));
  };
  return Array.from({ length: lanes }, (_, lane) => lane).filter((lane) => !isRun(lane));
}

function runs({ state }: ReportedLane): boolean {
  return state === "running";
}
