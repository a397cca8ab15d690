/** Requests and answers of the simulator, for tests and benchmarks. */
export interface Statistics {
  begin(record: { method: string; path: string }): Ongoing;
  read(): StatisticsReport;
  log(): readonly RequestRecord[];
  reset(): void;
}

export interface Ongoing {
  note(facts: Partial<RequestRecord>): void;
  /** The answer is on its way; status 0 is a connection that was cut. */
  answered(status: number, bytes: number): void;
  /** The exchange is over, with an answer or without. */
  closed(): void;
}

export interface StatisticsReport {
  readonly requests: number;
  readonly insightsRequests: number;
  readonly managementRequests: number;
  /** Answers of 400 and above, and connections that were cut. */
  readonly refused: number;
  readonly byStatus: Readonly<Record<string, number>>;
  readonly concurrent: number;
  readonly concurrentMax: number;
  readonly eventsServed: number;
  readonly bytesServed: number;
}

export interface RequestRecord {
  readonly at: string;
  readonly method: string;
  readonly path: string;
  /** The first of the organizations that were named, and how many there were. */
  readonly organizations: readonly string[];
  readonly organizationCount: number;
  readonly query: unknown;
  readonly status: number;
  readonly events: number;
}

/** Requests that the log remembers; older ones are only counted. */
const logMax = 5_000;

export function createStatistics(now: () => number): Statistics {
  let counts = zero();
  let log: RequestRecord[] = [];
  let concurrent = 0;

  return {
    begin({ method, path }) {
      concurrent++;
      counts.concurrentMax = Math.max(counts.concurrentMax, concurrent);
      counts.requests++;
      if (path.startsWith("/insights/")) counts.insightsRequests++;
      if (path.startsWith("/api/")) counts.managementRequests++;
      let record: RequestRecord = {
        at: new Date(now()).toISOString(),
        method,
        path,
        organizations: [],
        organizationCount: 0,
        query: null,
        status: 0,
        events: 0,
      };
      let answer = false;
      let closed = false;
      function answered(status: number, bytes: number): void {
        if (answer) return;
        answer = true;
        if (status === 0 || status >= 400) counts.refused++;
        counts.byStatus[status] = (counts.byStatus[status] ?? 0) + 1;
        counts.eventsServed += record.events;
        counts.bytesServed += bytes;
        log.push({ ...record, status });
        if (log.length > logMax * 2) log = log.slice(-logMax);
      }
      return {
        note(facts) {
          record = { ...record, ...facts };
        },
        answered,
        closed() {
          if (closed) return;
          closed = true;
          concurrent--;
          answered(0, 0);
        },
      };
    },
    read: () => ({ ...counts, byStatus: { ...counts.byStatus }, concurrent }),
    log: () => log.slice(-logMax),
    reset() {
      counts = zero();
      log = [];
    },
  };
}

function zero() {
  return {
    requests: 0,
    insightsRequests: 0,
    managementRequests: 0,
    refused: 0,
    byStatus: {} as Record<string, number>,
    concurrentMax: 0,
    eventsServed: 0,
    bytesServed: 0,
  };
}
