import { DirectoryError, type ErrorKind } from "./errors.ts";
import type { ImportRequest, WorkdayEntry } from "./management/imports.ts";
import type { ManagementClient } from "./management.ts";

type StartAnswer =
  | { readonly kind: "started"; readonly serviceJob: string }
  | { readonly kind: "refused"; readonly reason: string }
  | { readonly kind: "uncertain"; readonly reason: string };

/** Starting imports and reading their results, for those who must tell a refused start from a lost answer. */
export function importSourceOf(client: ManagementClient) {
  return {
    start: (
      organization: string | undefined,
      application: string,
      request: ImportRequest,
      signal: AbortSignal,
    ): Promise<StartAnswer> =>
      answerOf(() => client.startImport(application, request, { organization, signal })),

    async startWorkday(
      organization: string | undefined,
      workday: string,
      signal: AbortSignal,
    ): Promise<StartAnswer> {
      let entries: readonly WorkdayEntry[];
      try {
        entries = (await client.workdayWorkers(workday, { organization, signal })).map(entryOf);
      } catch (error) {
        return { kind: "refused", reason: `the workers could not be read: ${(error as Error).message}` };
      }
      if (entries.length === 0) return { kind: "refused", reason: "the integration offers no workers" };
      return answerOf(() => client.startWorkdayImport(workday, entries, { organization, signal }));
    },

    workdayResults: (
      organization: string | undefined,
      workday: string,
      serviceJob: string,
      signal: AbortSignal,
    ) => client.workdayResults(workday, serviceJob, { organization, signal }),
  };
}

/** These say that the service did not take the request; after anything else nobody knows. */
const REFUSALS: ReadonlySet<ErrorKind> = new Set<ErrorKind>([
  "bad_request",
  "unauthorized",
  "not_entitled",
  "forbidden",
  "not_found",
  "unknown_organization",
  "headers_too_large",
  "throttled",
]);

async function answerOf(start: () => Promise<string>): Promise<StartAnswer> {
  try {
    return { kind: "started", serviceJob: await start() };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return { kind: wasRefused(error) ? "refused" : "uncertain", reason };
  }
}

function wasRefused(error: unknown): boolean {
  if (!(error instanceof DirectoryError)) return false;
  return REFUSALS.has(error.kind) || (error.kind === "unavailable" && error.status === undefined);
}

/** The specification does not show a worker; the names of an entry are looked for in it. */
function entryOf(worker: Readonly<Record<string, unknown>>): WorkdayEntry {
  const text = (name: string) => (typeof worker[name] === "string" ? (worker[name] as string) : undefined);
  const attributes = Array.isArray(worker.attributes)
    ? (worker.attributes as WorkdayEntry["attributes"])
    : undefined;
  return {
    email: text("email") ?? "",
    firstname: text("firstname"),
    lastname: text("lastname"),
    username: text("username"),
    state: text("state"),
    attributes,
  };
}
