import { PausedError, RejectedEventsError, type Rejection, RetryableError } from "../../core/errors.ts";
import type { Answer, Requester } from "../../core/http/requester.ts";
import { jsonOf, saying, statusError } from "../over-http/status.ts";

export interface BulkConnection {
  readonly destination: string;
  readonly base: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly send: Requester["send"];
}

export interface BulkItem {
  readonly status: number;
  readonly type: string;
  readonly reason: string;
}

export interface BulkResults {
  /** In the order of sending; empty where none has an error. */
  readonly items: readonly BulkItem[];
  /** How long the cluster worked on the request. */
  readonly tookMs: number;
}

/** Both products write these members before the items, so an answer without errors need not be parsed, only counted. */
const WITHOUT_ERRORS = /^\{(?:"took":(\d+),"errors":false|"errors":false(?:,"took":(\d+))?)[,}]/;

/** HTTP 200 hides failures: each item has its own status, in the order of sending. */
export function resultsOf(answer: Answer, count: number): BulkResults {
  const quick = WITHOUT_ERRORS.exec(answer.text);
  if (quick !== null && answer.isWhole && answer.text.endsWith("}") && takenIn(answer.text) === count)
    return { items: [], tookMs: Number(quick[1] ?? quick[2] ?? 0) };
  const { items, took } = jsonOf(answer) ?? {};
  const tookMs = Number(took ?? 0);
  if (!answer.isWhole || !Array.isArray(items) || items.length !== count)
    throw new RetryableError("The answer to a bulk request is not complete.");
  return { items: items.map(itemOf), tookMs };
}

const TAKEN = '"status":2';

/** A gateway or a compatible product may say that there are no errors and have fewer items, or others. */
function takenIn(text: string): number {
  let count = 0;
  for (let at = text.indexOf(TAKEN); at >= 0; at = text.indexOf(TAKEN, at + TAKEN.length)) count++;
  return count;
}

function itemOf(item: Record<string, { status?: number; error?: Record<string, unknown> }>): BulkItem {
  const { status = 0, error = {} } = Object.values(item)[0] ?? {};
  return { status, type: String(error.type ?? ""), reason: String(error.reason ?? "") };
}

/** Errors of the cluster or the index, whatever their status, never of one event. */
const TYPES_TO_PAUSE = new Set([
  "cluster_block_exception",
  "index_closed_exception",
  "index_create_block_exception",
  "index_not_found_exception",
  "invalid_index_name_exception",
  "security_exception",
  "validation_exception",
]);

/** What an item means; done where it exists already (409). */
function meaningOf({ status, type }: BulkItem): "done" | "paused" | "retried" | "refused" {
  if (status === 409 || (status >= 200 && status < 300)) return "done";
  if ([401, 403, 404].includes(status) || TYPES_TO_PAUSE.has(type)) return "paused";
  return status === 429 || status >= 500 || status < 400 ? "retried" : "refused";
}

export function isRefusal(item: BulkItem): boolean {
  return meaningOf(item) === "refused";
}

/** Throws the error that the items add up to. */
export function judge(items: readonly BulkItem[], indexes: readonly number[], product: string): void {
  const rejected: Rejection[] = [];
  const remaining: number[] = [];
  let paused: BulkItem | undefined;
  let retried: BulkItem | undefined;
  for (const [at, item] of items.entries()) {
    const index = indexes[at]!;
    const meaning = meaningOf(item);
    if (meaning === "refused")
      rejected.push({ index, reason: `${product} answered ${item.status}: ${reasonOf(item)}` });
    else if (meaning !== "done") remaining.push(index);
    if (meaning === "paused") paused ??= item;
    if (meaning === "retried") retried ??= item;
  }
  if (rejected.length > 0)
    throw new RejectedEventsError(`${product} refused events.`, rejected, { remaining });
  if (paused)
    throw new PausedError(
      `${product} answered ${paused.status} for events: ${reasonOf(paused)}`,
      "Allow the user to create and write these indexes, and lift blocks on them.",
    );
  if (retried)
    throw new RetryableError(`${product} answered ${retried.status} for events: ${reasonOf(retried)}`, {
      remaining,
    });
}

/** The type and reason, without the previews of event values at the end of some reasons. */
function reasonOf({ type, reason }: Pick<BulkItem, "type" | "reason">): string {
  const plain = reason.replace(/(Preview of field's value|prefix of the first immense term).*$/s, "").trim();
  return saying(type ? `${type}:` : "", plain) ?? "no reason given";
}

export function saidOf(answer: Answer): string | undefined {
  const json = jsonOf(answer);
  // Proxies and managed services answer with a text of their own, as a member or as the whole body.
  const text = json?.Message ?? json?.message ?? (json === undefined ? plainText(answer) : undefined);
  if (json?.error === undefined && typeof text === "string") return saying(text);
  const error = json?.error;
  if (typeof error === "string") return saying(error);
  const { type, reason } = (error ?? {}) as Record<string, unknown>;
  return error === undefined
    ? undefined
    : reasonOf({ type: String(type ?? ""), reason: String(reason ?? "") });
}

/** The text of a page without its markup. */
function plainText({ text }: Answer): string {
  return text.replace(/<[^>]*>/g, " ");
}

export function bulkError(answer: Answer, destination: string): Error | undefined {
  return statusError(answer, {
    destination,
    said: saidOf(answer),
    remedy: "Correct url and credentials in this sink's config, or the user's permissions.",
  });
}
