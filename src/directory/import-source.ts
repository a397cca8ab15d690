import { DirectoryError, type ErrorKind, NotFoundError } from "./errors.ts";
import type { DirectoryUser, ImportRequest, WorkdayEntry } from "./management/import-calls.ts";
import type { ManagementClient } from "./management.ts";

type StartAnswer =
  | { readonly kind: "started"; readonly serviceJob: string }
  | {
      readonly kind: "refused";
      readonly about: "users" | "request";
      readonly reason: string;
      readonly users?: readonly { readonly index: number; readonly reason: string }[];
    }
  | { readonly kind: "unavailable"; readonly reason: string; readonly retryAfterMs?: number | undefined }
  | { readonly kind: "uncertain"; readonly reason: string };

interface OfferedUser {
  readonly username?: string | undefined;
  readonly email?: string | undefined;
  readonly firstname?: string | undefined;
  readonly lastname?: string | undefined;
  readonly state?: string | undefined;
  readonly attributes: readonly { readonly name: string; readonly value: string }[];
}

/** The management API for imports: offers in one shape, and starts that never reject. */
export function importSourceOf(client: ManagementClient) {
  return {
    async *offered(
      organization: string | undefined,
      offer: {
        readonly kind: "application" | "workday";
        readonly source: string;
        readonly query?: string | undefined;
      },
      signal: AbortSignal,
    ): AsyncGenerator<OfferedUser> {
      const options = { organization, signal };
      const rows =
        offer.kind === "workday"
          ? client.workdayWorkers(offer.source, options)
          : client.importUsers(offer.source, options, offer.query);
      for await (const row of rows) yield offeredUser(row);
    },

    async existing(organization: string | undefined, signal: AbortSignal, fields: "all" | "names" = "all") {
      const found: (OfferedUser & { id: string })[] = [];
      let bytes = 0;
      try {
        for await (const row of client.users({ organization, signal })) {
          const user = fields === "all" ? existingUser(row) : namesOf(row);
          bytes += sizeOf(user);
          if (bytes > EXISTING_BYTES_MAX) throw new Error(tooMany(found.length, fields));
          found.push(user);
        }
      } catch (error) {
        if (error instanceof NotFoundError) return undefined;
        throw error;
      }
      return found;
    },

    start: (
      organization: string | undefined,
      application: string,
      request: ImportRequest,
      signal: AbortSignal,
    ): Promise<StartAnswer> =>
      answerOf(() => client.startImport(application, request, { organization, signal })),

    startWorkday: (
      organization: string | undefined,
      workday: string,
      users: readonly OfferedUser[],
      signal: AbortSignal,
    ): Promise<StartAnswer> =>
      answerOf(() => client.startWorkdayImport(workday, users.map(entryOf), { organization, signal })),

    workdayResults: (
      organization: string | undefined,
      workday: string,
      serviceJob: string,
      signal: AbortSignal,
    ) => client.workdayResults(workday, serviceJob, { organization, signal }),

    activate: (organization: string | undefined, userId: string, signal: AbortSignal) =>
      client.activateUser(userId, { organization, signal }),
  };
}

/** What is kept of the users of an organization, to compare an import's users with them. */
const EXISTING_BYTES_MAX = 128 * 2 ** 20;
/** A user without any text takes about so much. */
const USER_BYTES = 200;

function sizeOf({ username = "", email = "", attributes }: OfferedUser): number {
  const names = USER_BYTES + username.length + email.length;
  return attributes.reduce((sum, { name, value }) => sum + name.length + value.length, names);
}

function tooMany(users: number, fields: "all" | "names"): string {
  const remedy =
    fields === "all"
      ? "An import that is started keeps only their names: start it without a preview"
      : "Import without onlyNew and with both operations: then they are not needed";
  return `the first ${users} users of the organization hold more than ${EXISTING_BYTES_MAX / 2 ** 20} MiB, which is more than is kept in memory, so the import cannot be compared with them. ${remedy}`;
}

/** The service did not take the request, and will not take the same one later. */
const REFUSALS: ReadonlySet<ErrorKind> = new Set<ErrorKind>([
  "unauthorized",
  "not_entitled",
  "forbidden",
  "not_found",
  "unknown_organization",
]);
/** The service did not take the request because of its content or its size. */
const CONTENT: ReadonlySet<ErrorKind> = new Set<ErrorKind>(["bad_request", "headers_too_large"]);

async function answerOf(start: () => Promise<string>): Promise<StartAnswer> {
  try {
    return { kind: "started", serviceJob: await start() };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    if (!(error instanceof DirectoryError)) return { kind: "uncertain", reason };
    if (REFUSALS.has(error.kind)) return { kind: "refused", about: "request", reason };
    if (CONTENT.has(error.kind)) return { kind: "refused", about: "users", reason, users: namedUsers(error) };
    const wasNotTaken =
      error.kind === "throttled" || (error.kind === "unavailable" && error.status === undefined);
    if (wasNotTaken) return { kind: "unavailable", reason, retryAfterMs: error.retryAfterMs };
    return { kind: "uncertain", reason };
  }
}

/** Entries that the answer's details name by their place: `3.email`, `[3].email`, `body[3]`. */
function namedUsers(error: DirectoryError): { index: number; reason: string }[] {
  const reasons = new Map<number, string[]>();
  for (const { field, message } of error.details) {
    const index = /(?:^|\[|\.)(\d+)(?:\]|\.|$)/.exec(field)?.[1];
    if (index === undefined) continue;
    const words = `${field.replace(/^.*?\d+\]?\.?/, "") || "the entry"}: ${message}`;
    reasons.set(Number(index), [...(reasons.get(Number(index)) ?? []), words]);
  }
  return [...reasons].map(([index, words]) => ({ index, reason: words.join("; ") }));
}

type Row = Readonly<Record<string, unknown>>;

/** The specification does not show a worker: names are seen as `firstname` and `firstName`, attributes as list and object. */
export function offeredUser(row: Row): OfferedUser {
  const text = (...names: readonly string[]) => {
    const found = names.map((name) => row[name]).find((value) => typeof value === "string" && value !== "");
    return found as string | undefined;
  };
  return {
    username: text("username", "userName"),
    email: text("email", "workEmail"),
    firstname: text("firstname", "firstName", "givenName"),
    lastname: text("lastname", "lastName", "familyName"),
    state: text("state"),
    attributes: attributesOf(row.attributes),
  };
}

function attributesOf(value: unknown): { name: string; value: string }[] {
  const entries = Array.isArray(value)
    ? value.map((one: Partial<Record<string, unknown>> | null) => [one?.name, one?.value])
    : typeof value === "object" && value !== null
      ? Object.entries(value)
      : [];
  return entries.flatMap(([name, content]) =>
    typeof name === "string" && content !== null && content !== undefined
      ? [{ name, value: typeof content === "string" ? content : JSON.stringify(content) }]
      : [],
  );
}

function existingUser(user: DirectoryUser): OfferedUser & { id: string } {
  return { ...offeredUser(user), id: user._id };
}

function namesOf(user: DirectoryUser): OfferedUser & { id: string } {
  const { username, email } = offeredUser({ ...user, attributes: [] });
  return { id: user._id, username, email, attributes: NONE };
}

const NONE: OfferedUser["attributes"] = [];

function entryOf({ username, email, firstname, lastname, state, attributes }: OfferedUser): WorkdayEntry {
  return {
    ...{ email: email ?? "", firstname, lastname, username, state },
    ...(attributes.length === 0 ? {} : { attributes }),
  };
}
