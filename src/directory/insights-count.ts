import { z } from "zod";
import { parseBounded } from "../core/http/bounded-json.ts";
import { BadRequestError, DirectoryError, NonsenseError, NotFoundError } from "./errors.ts";
import type { Exchange } from "./exchange.ts";
import {
  asInsightsError,
  BASE_HEADERS,
  bodyOf,
  type InsightsQuery,
  type InsightsScope,
  scopeHeaders,
} from "./insights-request.ts";

export type EventCounter = (
  query: InsightsQuery,
  scope: InsightsScope,
  signal: AbortSignal,
) => Promise<number | undefined>;

const countSchema = z.looseObject({ count: z.number().int().nonnegative() });

/** The specification has no such endpoint: it is tried once, and not used where it does not exist. */
export function createCounter(exchange: Exchange, url: URL): EventCounter {
  let state: "untried" | "there" | "absent" = "untried";
  return async (query, scope, signal) => {
    if (state === "absent") return undefined;
    try {
      const response = await exchange({
        method: "POST",
        url,
        headers: [...BASE_HEADERS, ...scopeHeaders(scope)],
        body: bodyOf(
          {
            service: query.service,
            startTime: query.startTime,
            endTime: query.endTime,
            searchTerm: query.searchTerm,
          },
          undefined,
        ),
        bodyBytesMax: 65_536,
        signal,
      });
      const parsed = countSchema.safeParse(parseJson(await response.body()));
      if (!parsed.success)
        throw new NonsenseError(`POST ${url.href}: the answer holds no count`, { status: response.status });
      state = "there";
      return parsed.data.count;
    } catch (error) {
      if (state === "untried" && meansAbsent(error)) {
        state = "absent";
        return undefined;
      }
      throw asInsightsError(error);
    }
  };
}

/** 404 is also the answer about an unknown organization, which says so. */
function meansAbsent(error: unknown): boolean {
  if (error instanceof NotFoundError) return !/organi[sz]ation/i.test(error.serviceMessage ?? "");
  if (error instanceof BadRequestError) return true;
  return error instanceof NonsenseError || (error instanceof DirectoryError && error.status === 501);
}

function parseJson(body: Buffer): unknown {
  try {
    return parseBounded(body.toString("utf8"));
  } catch {
    return undefined;
  }
}
