import { hash } from "node:crypto";
import { z } from "zod";
import { NonsenseError } from "../errors.ts";
import type { CallOptions } from "./applications.ts";
import { type Caller, pathOf } from "./call.ts";
import { anything, numberField, type Raw, rawField, records, textField } from "./fields.ts";
import { listSchema, paged, SMALLEST_PAGE } from "./paging.ts";

export type ImportOperation = "users.create" | "users.update";

export interface ImportRequest {
  readonly operations: readonly ImportOperation[];
  /** Lets suspended users be reactivated on update. */
  readonly allowUserReactivation?: boolean | undefined;
  /** A filter that is passed to the source; its meaning depends on the connector. */
  readonly queryString?: string | undefined;
}

export interface WorkdayEntry {
  readonly email: string;
  readonly firstname?: string | undefined;
  readonly lastname?: string | undefined;
  readonly username?: string | undefined;
  readonly state?: string | undefined;
  readonly attributes?: readonly { readonly name: string; readonly value: string }[] | undefined;
}

export interface ScheduledState {
  readonly userIds: readonly string[];
  readonly state: "ACTIVATED" | "SUSPENDED";
  /** RFC 3339. */
  readonly startDate: string;
}

const scheduledSchema = z.looseObject({
  scheduledJobId: textField,
  scheduledDate: textField,
  state: textField,
  systemUserId: textField,
});
export type Scheduled = z.output<typeof scheduledSchema>;

const userSchema = z.looseObject({
  _id: z.string().min(1),
  username: textField,
  email: textField,
  firstname: textField,
  lastname: textField,
  state: textField,
  attributes: records,
});
export type DirectoryUser = z.output<typeof userSchema>;

/** A row of a Workday import's results; the specification does not show it, so it is kept as it comes. */
export type ImportResult = Raw;

export interface ImportCalls {
  /**
   * The users that the source offers, each unchanged; one page in memory at a time. The published interface passes
   * `query` to the source as an import passes its queryString; the specification does not name it.
   */
  importUsers(
    application: string,
    options: CallOptions,
    sourceQuery?: string,
  ): AsyncGenerator<Raw, void, undefined>;
  /** Starts an import and gives its job id. Never repeated after an answer that broke off. */
  startImport(application: string, request: ImportRequest, options: CallOptions): Promise<string>;
  /** Every worker that the integration offers, each as it comes. */
  workdayWorkers(workday: string, options: CallOptions): AsyncGenerator<Raw, void, undefined>;
  startWorkdayImport(
    workday: string,
    entries: readonly WorkdayEntry[],
    options: CallOptions,
  ): Promise<string>;
  /** The results so far, each as it comes. */
  workdayResults(
    workday: string,
    job: string,
    options: CallOptions,
  ): AsyncGenerator<ImportResult, void, undefined>;
  /** The users of the organization. The specification does not show this list: a NotFoundError means none. */
  users(options: CallOptions): AsyncGenerator<DirectoryUser, void, undefined>;
  activateUser(user: string, options: CallOptions): Promise<void>;
  scheduleStates(states: ScheduledState, options: CallOptions): Promise<readonly Scheduled[]>;
}

export function importCalls(call: Caller): ImportCalls {
  return {
    importUsers: (application, options, sourceQuery) => importUsers(call, application, options, sourceQuery),
    startImport: (application, request, options) =>
      call({
        method: "POST",
        path: pathOf`/v2/applications/${application}/import/jobs`,
        ...options,
        body: request,
        answer: jobIdSchema,
      }),
    workdayWorkers: (workday, options) =>
      pagedRows(call, pathOf`/v2/workdays/${workday}/workers`, options, { isSorted: true }),
    startWorkdayImport: (workday, entries, options) =>
      call({
        method: "POST",
        path: pathOf`/v2/workdays/${workday}/import`,
        ...options,
        body: entries,
        answer: jobIdSchema,
      }),
    workdayResults: (workday, job, options) =>
      pagedRows(call, pathOf`/v2/workdays/${workday}/import/${job}/results`, options, {
        isSorted: false,
        keyOf: resultKeyOf,
      }),
    users: (options) =>
      paged(
        PAGE_SIZE,
        ({ _id }: DirectoryUser) => _id,
        (skip, limit) =>
          call({
            method: "GET",
            path: "/systemusers",
            ...options,
            query: { sort: "_id", skip, limit },
            answer: listSchema(userSchema),
          }),
        { isSorted: true },
      ),
    async activateUser(user, options) {
      const path = pathOf`/systemusers/${user}/state/activate`;
      await call({ method: "POST", path, ...options, body: {}, answer: anything });
    },
    async scheduleStates({ userIds, state, startDate }, options) {
      const page = await call({
        method: "POST",
        path: "/v2/bulk/userstates",
        ...options,
        body: { user_ids: userIds, state, start_date: startDate },
        answer: listSchema(scheduledSchema),
      });
      return page.items;
    },
  };
}

const PAGE_SIZE = 100;

function pagedRows(
  call: Caller,
  path: string,
  options: CallOptions,
  order: { readonly isSorted: boolean; readonly keyOf?: (row: Raw) => string },
): AsyncGenerator<Raw, void, undefined> {
  return paged(
    PAGE_SIZE,
    order.keyOf ?? digestOf,
    (skip, limit) =>
      call({ method: "GET", path, ...options, query: { limit, skip }, answer: listSchema(rawField) }),
    order,
  );
}

/** A row may be large, so only its digest is kept, as 32 characters of one byte. */
function digestOf(row: Raw): string {
  return hash("sha256", JSON.stringify(row), "binary");
}

const RESULT_NAMES = ["id", "_id", "systemUserId", "system_user_id", "userId", "username", "email"];
const RESULT_WORDS = ["status", "statusMsg", "message", "error", "errors", "success", "operation"];

/**
 * A row of results may change while the job runs, for example in a time that it carries. It counts as new only where it
 * says something else about its user: a service that ignores `skip` would be read without end.
 */
function resultKeyOf(row: Raw): string {
  const nested = row.persistedFields;
  const inner = typeof nested === "object" && nested !== null ? (nested as Raw) : {};
  const names = [row, inner].flatMap((fields) => RESULT_NAMES.map((name) => fields[name]));
  if (!names.some((name) => typeof name === "string" && name !== "")) return digestOf(row);
  return digestOf({ names, words: RESULT_WORDS.map((word) => row[word]) });
}

/** The generic import answers `_id`, the Workday import what a bulk create answers: `jobId`. */
const jobIdSchema = z
  .looseObject({ _id: textField, jobId: textField, id: textField })
  .transform(({ _id, jobId, id }) => _id || jobId || id || "")
  .pipe(z.string().min(1, { error: "the answer holds no job id" }));

const usersSchema = z.union([
  z.array(rawField).transform((users) => ({
    users,
    ...{ cursor: undefined, session_id: undefined, sessionId: undefined },
    ...{ total_count: undefined, totalCount: undefined },
  })),
  z.looseObject({
    users: z
      .array(rawField)
      .nullish()
      .transform((users) => users ?? []),
    cursor: z.union([z.string(), z.number()]).nullish(),
    session_id: textField,
    sessionId: textField,
    total_count: numberField,
    totalCount: numberField,
  }),
]);

const PREVIEW_PAGE_SIZE = 100;
/** A service may give ten users whatever was asked for. Imports take 200,000 of them. */
const PREVIEW_PAGES_MAX = 20_100;
/** So many pages without users, one behind the other, end a list: some services give a cursor behind the end too. */
const EMPTY_PAGES_MAX = 10;

/**
 * An array pages by skip; the object that is seen in the field by its cursor and session, whose parameter is
 * spelled `sessionId` in the published interface and `session_id` in its answers: both are sent. A page with
 * nothing new ends the list, so a source that ignores both is read once: that list is whole where no number is told.
 * A page without users and with another cursor does not end it.
 */
async function* importUsers(
  call: Caller,
  application: string,
  options: CallOptions,
  sourceQuery: string | undefined,
): AsyncGenerator<Raw> {
  const seen = new Set<string>();
  let cursor: string | number | undefined;
  let session: string | undefined;
  const cursors = new Set<string | number>();
  let listed = 0;
  let empty = 0;
  for (let page = 0, skip = 0; page < PREVIEW_PAGES_MAX; page++) {
    const query = {
      limit: PREVIEW_PAGE_SIZE,
      query: sourceQuery || undefined,
      ...(cursor === undefined ? { skip } : { cursor, sessionId: session, session_id: session }),
    };
    const path = pathOf`/v2/applications/${application}/import/users`;
    const answer = await call({ method: "GET", path, ...options, query, answer: usersSchema });
    let fresh = 0;
    for (const user of answer.users) {
      const key = digestOf(user);
      if (seen.has(key)) continue;
      seen.add(key);
      fresh++;
      yield user;
    }
    skip += answer.users.length;
    listed += fresh === 0 ? 0 : answer.users.length;
    const next = answer.cursor === "" ? undefined : (answer.cursor ?? undefined);
    const ended = next === undefined ? answer.users.length < SMALLEST_PAGE : cursors.has(next);
    const total = answer.total_count ?? answer.totalCount;
    const isWhole = total != null && skip >= total;
    empty = answer.users.length === 0 && next !== undefined ? empty + 1 : 0;
    const isPassed = empty > 0 && empty < EMPTY_PAGES_MAX;
    if ((fresh === 0 && !isPassed) || ended || isWhole) {
      // With a query the number may be that of the whole list.
      if (!sourceQuery && total != null && listed < total) throw new NonsenseError(cutShort(listed, total));
      return;
    }
    if (next !== undefined) cursors.add(next);
    cursor = next;
    session = answer.session_id ?? answer.sessionId ?? session;
  }
  throw new NonsenseError(`The list does not end after ${PREVIEW_PAGES_MAX} pages.`);
}

function cutShort(listed: number, total: number): string {
  return `The service says that its list has ${total} users, and lists ${listed} of them.`;
}
