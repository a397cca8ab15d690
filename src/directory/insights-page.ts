import { dateMsOf } from "../core/http/retry-after.ts";
import type { Auth } from "./auth.ts";
import { NonsenseError } from "./errors.ts";
import { bounded, requestIdOf } from "./facts.ts";
import type { TransportResponse } from "./transport.ts";

export interface PageHead {
  readonly status: 200;
  readonly resultCount: number | undefined;
  readonly limit: number | undefined;
  /** The header's bytes as latin1 text; send it back unchanged. */
  readonly searchAfter: string | undefined;
  /** The order of the answer, as the service names it. */
  readonly sort: string | undefined;
  /** The service's clock. */
  readonly dateMs: number | undefined;
  readonly requestId: string | undefined;
}

/** The headers of a page; throws NonsenseError where one cannot be what it should be. */
export function headOf(response: TransportResponse, where: string): PageHead {
  const requestId = requestIdOf(response);
  if (response.status !== 200) {
    throw new NonsenseError(`${where}: the status ${response.status} where 200 is due`, {
      status: response.status,
      requestId,
    });
  }
  return {
    status: 200,
    resultCount: integerOf(response, "x-result-count", where),
    // 0 says nothing: every page is as long as that.
    limit: integerOf(response, "x-limit", where) || undefined,
    searchAfter: tokenOf(response, where),
    sort: response.header("x-sort"),
    dateMs: dateMsOf(response.header("date")),
    requestId,
  };
}

function integerOf(response: TransportResponse, name: string, where: string): number | undefined {
  const text = response.header(name)?.trim();
  if (text === undefined || text === "") return undefined;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new NonsenseError(
    `${where}: the header ${name} is ${JSON.stringify(text.slice(0, 50))}, not a count`,
    {
      status: 200,
      requestId: requestIdOf(response),
    },
  );
}

/** Parsed only to see that it is an array, which is what makes it safe to put into a JSON text. */
function tokenOf(response: TransportResponse, where: string): string | undefined {
  const text = response.header("x-search_after") ?? response.header("x-search-after");
  if (text === undefined || text.trim() === "" || text.trim() === "null") return undefined;
  try {
    if (Array.isArray(JSON.parse(text))) return text;
  } catch {
    // Reported below.
  }
  throw new NonsenseError(
    `${where}: the header X-Search_after is ${JSON.stringify(text.slice(0, 50))}, not an array`,
    {
      status: 200,
      requestId: requestIdOf(response),
    },
  );
}

const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/** Throws NonsenseError where the body is no array. */
export function checkArray(body: Buffer, where: string, response: TransportResponse, auth: Auth): void {
  // JSON allows blanks in front of the array, so the mark needs no copy of the body (R32).
  if (body.subarray(0, 3).equals(BYTE_ORDER_MARK)) body.fill(0x20, 0, 3);
  let at = 0;
  while (isBlank(body[at])) at++;
  if (body[at] === 0x5b) return;
  const beginning = bounded(auth.clean(body.subarray(at, at + 1000).toString("utf8")), 100);
  const what = beginning === "" ? "an empty body" : `a body that begins ${JSON.stringify(beginning)}`;
  throw new NonsenseError(`${where}: ${what}, where an array of events is due`, {
    status: 200,
    requestId: requestIdOf(response),
    dateMs: dateMsOf(response.header("date")),
  });
}

function isBlank(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

export interface Sizes {
  guess(resultCount: number): number;
  learn(bytes: number, resultCount: number | undefined): void;
}

/** Guesses the size of a page from the events of the last one. */
export function sizesOf(): Sizes {
  let eventBytes = 1100;
  return {
    guess: (resultCount) =>
      Number.isSafeInteger(resultCount) ? Math.ceil(resultCount * eventBytes * 1.03) : 0,
    learn(bytes, resultCount) {
      if (resultCount !== undefined && resultCount >= 100) eventBytes = bytes / resultCount;
    },
  };
}
