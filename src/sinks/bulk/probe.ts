import { PausedError } from "../../core/errors.ts";
import type { Answer } from "../../core/http/requester.ts";
import { compileTemplate } from "../../core/names.ts";
import type { SinkContext } from "../../core/sink.ts";
import { type ProbeRequest, probeOver } from "../over-http/probe.ts";
import { isSuccess, jsonOf } from "../over-http/status.ts";
import { bulkError } from "./answer.ts";
import { type BulkConfig, INDEX_PLACEHOLDERS } from "./config.ts";
import { connectBulk } from "./connect.ts";
import type { BulkCredentials } from "./credentials.ts";
import { indexTemplateOf } from "./indexes.ts";
import type { Product } from "./mappings.ts";

/**
 * Asks the cluster, with requests that change nothing:
 *
 * 1. whether it answers and accepts the credentials;
 * 2. whether the index of an event of now exists and takes writes, or would be created;
 * 3. whether the user may write there: Elasticsearch answers that question, and both refuse a bulk request of a
 *    user without the right to send one, here for a document whose ingest pipeline does not exist.
 */
export async function probeBulk(
  context: SinkContext<BulkConfig>,
  product: Product,
  credentials: BulkCredentials,
): Promise<readonly string[]> {
  const { config, clock, signal } = context;
  const { requester, connection } = await connectBulk(context, product, credentials);
  const { base, headers, destination } = connection;
  const json = { ...headers, "content-type": "application/json" };
  try {
    const template = await indexTemplateOf(context, connection);
    const index = indexNow(template, clock.now());
    const known = (path: string) => ({ method: "GET", url: `${base}/${path}`, headers }) as const;
    const requests: ProbeRequest[] = [
      {
        ...known(""),
        judge: (answer) => (isAllowedOnly(answer) ? undefined : bulkError(answer, destination)),
      },
    ];
    if (index !== undefined) {
      requests.push({
        ...known(`${index}/_settings?flat_settings=true`),
        judge: (answer) => blocked(answer, index),
      });
      requests.push({
        ...known(
          "_cluster/settings?include_defaults=true&flat_settings=true&filter_path=*.action.auto_create_index",
        ),
        judge: () => undefined,
        remark: creationRemarks,
      });
      if (config.dataStream && !config.template)
        requests.push({ ...known(`_data_stream/${index}`), judge: () => undefined, remark: streamRemarks });
      if (product === "Elasticsearch")
        requests.push({
          url: `${base}/_security/user/_has_privileges`,
          headers: json,
          body: JSON.stringify({ index: [{ names: [index], privileges: ["create_doc"] }] }),
          judge: (answer) => unprivileged(answer, index),
        });
      requests.push({
        url: `${base}/_bulk?filter_path=errors,items.*.status,items.*.error.type`,
        headers: { ...headers, "content-type": "application/x-ndjson" },
        body: `{"create":{"_index":"${index}","pipeline":"tidemark-no-such-pipeline"}}\n{}\n`,
        judge: (answer) => deniedBulk(answer, destination, index),
      });
    }
    const remarks = await probeOver({ requester, clock, signal, requests });
    return index === undefined ? [...remarks, NAMED_BY_EVENTS] : remarks;
  } finally {
    await requester.close();
  }
}

const NAMED_BY_EVENTS = "Indexes with names from events are checked when the first event goes there.";

/** The index of an event of now; undefined where its name depends on more than the time. */
function indexNow(template: string, nowMs: number): string | undefined {
  if (/\{(organization|service|account)\}/.test(template)) return undefined;
  const at = { timestampMs: nowMs } as Parameters<ReturnType<typeof compileTemplate>>[0];
  return compileTemplate(template, INDEX_PLACEHOLDERS)(at);
}

/** A user who may only write gets a 403 for the cluster's greeting. */
function isAllowedOnly(answer: Answer): boolean {
  return isSuccess(answer) || answer.status === 403 || answer.status === 404;
}

function blocked(answer: Answer, index: string): Error | undefined {
  if (!isSuccess(answer)) return undefined;
  for (const [name, { settings = {} }] of Object.entries(
    jsonOf(answer) as Record<string, { settings?: Record<string, unknown> }>,
  )) {
    const block = Object.keys(settings).find(
      (key) =>
        /^index\.blocks\.(write|read_only|read_only_allow_delete)$/.test(key) && settings[key] === "true",
    );
    if (block !== undefined)
      return new PausedError(
        `The index ${name}, where ${index} leads, takes no writes: it has ${block}.`,
        "Free disk space if the cluster set the block, and remove it from the index.",
      );
  }
  return undefined;
}

function streamRemarks({ status }: Answer): readonly string[] {
  return status === 404
    ? [
        "The data stream does not exist; the first event creates it if an index template with data_stream matches.",
      ]
    : [];
}

/** Without automatic creation a missing index is refused, unless the user may create it. */
function creationRemarks(answer: Answer): readonly string[] {
  const groups = Object.values((jsonOf(answer) ?? {}) as Record<string, Record<string, unknown>>);
  const setting = groups
    .map((group) => group?.["action.auto_create_index"])
    .find((value) => value !== undefined);
  if (setting === undefined || setting === "true") return [];
  return [
    `The cluster creates indexes by itself only for ${String(setting)}; the user needs the right to create the sink's indexes.`,
  ];
}

function unprivileged(answer: Answer, index: string): Error | undefined {
  // Clusters without security answer 400, 404 or 405.
  if (!isSuccess(answer) || jsonOf(answer)?.has_all_requested !== false) return undefined;
  return new PausedError(
    `The user may not create documents in ${index}.`,
    "Give its role the privileges create_doc and auto_configure on these indexes.",
  );
}

function deniedBulk(answer: Answer, destination: string, index: string): Error | undefined {
  if (!isSuccess(answer)) return answer.status === 400 ? undefined : bulkError(answer, destination);
  const items = (jsonOf(answer)?.items ?? []) as Record<string, { status?: number }>[];
  const status = Object.values(items[0] ?? {})[0]?.status;
  if (status !== 401 && status !== 403) return undefined;
  return new PausedError(
    `${destination} answered ${status} to a bulk request for ${index}.`,
    "Allow the user to write these indexes.",
  );
}
