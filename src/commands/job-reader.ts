import type { ClusterClient } from "../app/cluster/client.ts";
import { UsageError } from "../core/errors.ts";
import { RouteError } from "../core/route.ts";
import type { MayBeIncomplete } from "../core/view/fields.ts";
import type { Job, JobEvent, JobUser, UserOutcome } from "../imports/job.ts";
import { IMPORT_JOBS_MAX, IMPORT_ROWS_MAX, runOf } from "../imports/routes.ts";
import type { JobFilter } from "../imports/store/jobs.ts";
import { openImportStore } from "../imports/store/open.ts";
import type { ManagementContext } from "./management.ts";

interface Jobs extends MayBeIncomplete {
  readonly jobs: readonly Job[];
}

interface Runs extends MayBeIncomplete {
  readonly runs: readonly ReturnType<typeof runOf>[];
}

/** Import jobs as commands read them: from the state file, or in a cluster from the machines that run their lanes. */
export interface JobReader {
  list(filter: JobFilter): Promise<Jobs>;
  runs(filter: { readonly import: string | undefined; readonly limit: number }): Promise<Runs>;
  job(id: number): Promise<Job | undefined>;
  /** All of them, or the first of an outcome. */
  users(
    id: number,
    some?: { readonly outcome: UserOutcome; readonly limit: number },
  ): Promise<readonly JobUser[]>;
  timeline(id: number): Promise<readonly JobEvent[]>;
}

export function jobReader(context: ManagementContext): JobReader {
  return context.cluster === undefined ? ofStateFile(context) : ofCluster(context.cluster);
}

const EVERY = { limit: 10_000_000, offset: 0 };

function ofStateFile(context: ManagementContext): JobReader {
  const store = openImportStore(context.database("read"));
  return {
    list: async (filter) => ({ jobs: store.list(filter) }),
    runs: async (filter) => ({ runs: store.runs.list(filter).map(runOf) }),
    job: async (id) => store.job(id),
    users: async (id, some) => store.users.list(id, some === undefined ? EVERY : { ...some, offset: 0 }),
    timeline: async (id) => store.users.timeline(id, EVERY),
  };
}

/** An answer has to fit one message. */
const CHUNK = 1000;

function ofCluster(cluster: NonNullable<ManagementContext["cluster"]>): JobReader {
  const get = async <Value>(path: string, input: Parameters<ClusterClient["call"]>[2]) =>
    (await (await cluster()).call("GET", path, input)) as Value;

  async function every<Row>(path: string, name: string, id: number): Promise<readonly Row[]> {
    const rows: Row[] = [];
    for (;;) {
      const query = { limit: CHUNK, offset: rows.length };
      const found = (await get<Record<string, Row[]>>(path, { params: { id }, query }))[name]!;
      rows.push(...found);
      if (found.length < CHUNK) return rows;
    }
  }

  return {
    async list({ state, account, import: name, limit }) {
      checkLimit(limit, IMPORT_JOBS_MAX, "--state and --account choose among the jobs.");
      return get<Jobs>("/api/imports", { query: { state, account, import: name, limit } });
    },
    async runs(query) {
      checkLimit(query.limit, IMPORT_ROWS_MAX, "Name one import.");
      return get<Runs>("/api/imports/runs", { query });
    },
    async job(id) {
      try {
        return await get<Job>("/api/imports/:id", { params: { id } });
      } catch (error) {
        if (error instanceof RouteError && error.status === 404) return undefined;
        throw error;
      }
    },
    async users(id, some) {
      const path = "/api/imports/:id/users";
      if (some === undefined) return every<JobUser>(path, "users", id);
      return (await get<{ users: JobUser[] }>(path, { params: { id }, query: some })).users;
    },
    timeline: (id) => every<JobEvent>("/api/imports/:id/timeline", "events", id),
  };
}

function checkLimit(limit: number | undefined, most: number, choice: string): void {
  if (limit !== undefined && (limit < 1 || limit > most))
    throw new UsageError(
      `In a cluster --limit is from 1 to ${most}, because an answer has to fit one message. ${choice}`,
    );
}
