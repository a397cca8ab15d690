import { z } from "zod";
import { type Caller, pathOf } from "./call.ts";
import { flagField, type Raw, rawField, record, records, textField } from "./fields.ts";
import { merged } from "./merge.ts";
import { listSchema, paged } from "./paging.ts";

const applicationSchema = z.looseObject({
  _id: z.string().min(1),
  active: flagField,
  beta: flagField,
  color: textField,
  config: record,
  created: textField,
  databaseAttributes: records,
  description: textField,
  displayLabel: textField,
  displayName: textField,
  learnMore: textField,
  logo: record,
  name: textField,
  organization: textField,
  sso: record,
  ssoUrl: textField,
  parentApp: textField,
  referenceApplications: records,
  aiReady: flagField,
});
export type ApplicationRow = z.output<typeof applicationSchema>;

const templateSchema = z.looseObject({
  _id: z.string().min(1),
  name: textField,
  displayName: textField,
  config: record,
});
export type ApplicationTemplate = z.output<typeof templateSchema>;

/** The least that a SAML application needs; every other field of an application may be given too. */
export interface NewApplication extends Readonly<Record<string, unknown>> {
  readonly name: string;
  readonly displayLabel: string;
  readonly displayName: string;
  readonly ssoUrl: string;
  readonly config: Readonly<Record<string, unknown>>;
}

export interface ListOptions {
  readonly organization?: string | undefined;
  /** Field names; the service's default when absent. `_id` is always among them. */
  readonly fields?: readonly string[] | undefined;
  readonly filter?: string | undefined;
  /** Fields to sort by, `-` before a name for descending; `_id` decides last, so that pages neither overlap nor skip. */
  readonly sort?: readonly string[] | undefined;
  readonly signal: AbortSignal;
}

export interface CallOptions {
  readonly organization?: string | undefined;
  readonly signal: AbortSignal;
}

export interface ApplicationCalls {
  applications(options: ListOptions): AsyncGenerator<ApplicationRow, void, undefined>;
  application(id: string, options: CallOptions): Promise<ApplicationRow>;
  createApplication(application: NewApplication, options: CallOptions): Promise<ApplicationRow>;
  /** PUT: any field that is not given is reset to its default. */
  replaceApplication(id: string, application: Raw, options: CallOptions): Promise<ApplicationRow>;
  /** GET, merge, PUT: only what `changes` names is changed. Objects are merged, arrays and values replaced. */
  updateApplication(id: string, changes: Raw, options: CallOptions): Promise<ApplicationRow>;
  deleteApplication(id: string, options: CallOptions): Promise<ApplicationRow>;
  applicationTemplates(options: ListOptions): AsyncGenerator<ApplicationTemplate, void, undefined>;
  applicationTemplate(id: string, options: Omit<ListOptions, "filter">): Promise<ApplicationTemplate>;
}

const PAGE_SIZE = 100;

export function applicationCalls(call: Caller): ApplicationCalls {
  const list = <Item extends { _id: string }>(path: string, item: z.ZodType<Item>, options: ListOptions) => {
    const answer = listSchema(item);
    return paged(
      PAGE_SIZE,
      (one: Item) => one._id,
      (skip, limit) =>
        call({
          method: "GET",
          path,
          organization: options.organization,
          query: {
            sort: sortOf(options.sort),
            skip,
            limit,
            fields: fieldsOf(options.fields),
            filter: options.filter,
          },
          answer,
          signal: options.signal,
        }),
      { isSorted: true },
    );
  };
  const one = <Output>(
    method: "GET" | "PUT" | "DELETE",
    id: string,
    options: CallOptions,
    answer: z.ZodType<Output>,
    body?: unknown,
  ) => call({ method, path: pathOf`/applications/${id}`, ...options, answer, body });

  return {
    applications: (options) => list("/applications", applicationSchema, options),
    application: (id, options) => one("GET", id, options, applicationSchema),
    createApplication: (application, options) =>
      call({
        method: "POST",
        path: "/applications",
        ...options,
        body: application,
        answer: applicationSchema,
      }),
    replaceApplication: (id, application, options) => one("PUT", id, options, applicationSchema, application),
    async updateApplication(id, changes, options) {
      const current = await one("GET", id, options, rawField);
      return one("PUT", id, options, applicationSchema, merged(current, changes));
    },
    deleteApplication: (id, options) => one("DELETE", id, options, applicationSchema),
    applicationTemplates: (options) => list("/application-templates", templateSchema, options),
    applicationTemplate: (id, { fields, sort: _, ...options }) =>
      call({
        method: "GET",
        path: pathOf`/application-templates/${id}`,
        ...options,
        query: { fields: fieldsOf(fields) },
        answer: templateSchema,
      }),
  };
}

function sortOf(sort: readonly string[] = []): string {
  return [...sort, ...(sort.some((name) => /^-?_id$/.test(name)) ? [] : ["_id"])].join(" ");
}

function fieldsOf(fields: readonly string[] | undefined): string | undefined {
  if (fields === undefined) return undefined;
  return [...new Set(["_id", ...fields])].join(" ");
}
