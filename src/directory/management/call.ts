import { z } from "zod";
import type { Clock } from "../../core/clock.ts";
import { parseBounded, TooManyValuesError } from "../../core/http/bounded-json.ts";
import {
  CutOffError,
  DirectoryError,
  NonsenseError,
  NotFoundError,
  ThrottledError,
  UnavailableError,
  UnknownOrganizationError,
} from "../errors.ts";
import { type Exchange, headerValue } from "../exchange.ts";
import { requestIdOf } from "../facts.ts";

export interface Call<Output> {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Below the management address; ids in it are encoded by `pathOf`. */
  readonly path: string;
  /** The organization that the call is about; multi-tenant administrators must name it. */
  readonly organization?: string | undefined;
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly body?: unknown;
  readonly answer: z.ZodType<Output>;
  readonly signal: AbortSignal;
}

/** One call of the management API: JSON both ways, the answer parsed, temporary failures retried. */
export type Caller = <Output>(call: Call<Output>) => Promise<Output>;

const ATTEMPTS_MAX = 5;
const BACK_OFF_MS = 500;
const BACK_OFF_MS_MAX = 30_000;
/** Longest Retry-After that is waited out here; a longer one is the caller's decision. */
const RETRY_AFTER_MS_MAX = 120_000;
/** Lists are read in pages, so an answer has a few hundred items at most. */
const BODY_BYTES_MAX = 16 * 2 ** 20;
/** A list may have one for each of its items. */
const PROBLEMS_MAX = 3;

export function callerOf(exchange: Exchange, managementUrl: string, clock: Clock): Caller {
  return async (call) => {
    for (let attempt = 1; ; attempt++) {
      try {
        return await callOnce(exchange, managementUrl, call);
      } catch (error) {
        if (attempt === ATTEMPTS_MAX || !mayRepeat(call.method, error)) throw error;
        await clock.sleep(waitMs(attempt, error), call.signal);
      }
    }
  };
}

/**
 * Reads are repeated after any failure that may pass. A write is repeated only where the service certainly
 * did not take it: it throttled us, or did not answer at all. After a cut-off that is not known, so the caller
 * decides.
 */
function mayRepeat(method: string, error: unknown): boolean {
  if (!(error instanceof DirectoryError)) return false;
  if ((error.retryAfterMs ?? 0) > RETRY_AFTER_MS_MAX) return false;
  if (error instanceof ThrottledError) return true;
  if (error instanceof UnavailableError) return method === "GET" || error.status === undefined;
  return error instanceof CutOffError && method === "GET";
}

function waitMs(attempt: number, error: unknown): number {
  const backOffMs = Math.min(BACK_OFF_MS * 2 ** (attempt - 1), BACK_OFF_MS_MAX) * (0.5 + Math.random() / 2);
  return Math.max(backOffMs, (error as DirectoryError).retryAfterMs ?? 0);
}

async function callOnce<Output>(
  exchange: Exchange,
  managementUrl: string,
  call: Call<Output>,
): Promise<Output> {
  const url = new URL(managementUrl + call.path);
  for (const [name, value] of Object.entries(call.query ?? {})) {
    if (value !== undefined) url.searchParams.set(name, String(value));
  }
  try {
    const response = await exchange({
      method: call.method,
      url,
      headers: headersOf(call),
      body: call.body === undefined ? undefined : JSON.stringify(call.body),
      bodyBytesMax: BODY_BYTES_MAX,
      signal: call.signal,
    });
    const where = `${call.method} ${url.origin}${url.pathname}`;
    return parse(call.answer, await response.body(), where, response.status, requestIdOf(response));
  } catch (error) {
    throw asManagementError(error);
  }
}

function headersOf(call: Call<unknown>): string[] {
  const headers = ["accept", "application/json"];
  if (call.body !== undefined) headers.push("content-type", "application/json");
  if (call.organization !== undefined) {
    headers.push("x-org-id", headerValue("organization", call.organization));
  }
  return headers;
}

/** An empty body is `undefined` to the schema. */
function parse<Output>(
  answer: z.ZodType<Output>,
  body: Buffer,
  where: string,
  status: number,
  requestId: string | undefined,
): Output {
  const text = body.toString("utf8").trim();
  let json: unknown;
  try {
    json = text === "" ? undefined : parseBounded(text);
  } catch (cause) {
    if (cause instanceof TooManyValuesError)
      throw new NonsenseError(`${where}: ${cause.message}`, { status, requestId });
    throw new NonsenseError(`${where}: the answer is not JSON`, { status, requestId, cause });
  }
  const parsed = answer.safeParse(json);
  if (parsed.success) return parsed.data;
  const problems = z.prettifyError(new z.ZodError(parsed.error.issues.slice(0, PROBLEMS_MAX)));
  throw new NonsenseError(`${where}: not the answer that was expected: ${problems}`, { status, requestId });
}

/** 404 is about many things here; about an organization only where the service says so. */
function asManagementError(error: unknown): unknown {
  if (!(error instanceof NotFoundError) || !/organi[sz]ation/i.test(error.serviceMessage ?? "")) return error;
  const { status, serviceMessage, code, requestId, dateMs } = error;
  return new UnknownOrganizationError(error.message, { status, serviceMessage, code, requestId, dateMs });
}

/** A path with its ids encoded: pathOf`/applications/${id}`. */
export function pathOf(parts: TemplateStringsArray, ...ids: readonly string[]): string {
  return parts.reduce((path, part, at) => path + encodeId(ids[at - 1]!) + part);
}

function encodeId(id: string): string {
  // A dot segment would leave the path.
  if (id === "" || id === "." || id === "..") throw new Error(`${JSON.stringify(id)} is no id.`);
  return encodeURIComponent(id);
}
