import type { Answer } from "../../core/http/requester.ts";
import { jsonOf } from "../over-http/status.ts";

/** The collector's codes are small: a gateway's `code` is often its HTTP status. */
const CODE_MAX = 99;

/**
 * The code in a collector's own answer; undefined for the answer of a gateway in between, such as
 * `{"code":504,"message":"upstream timed out"}`.
 */
export function collectorCode(answer: Answer): number | undefined {
  const { code, text } = jsonOf(answer) ?? {};
  const isOwn = typeof text === "string" && Number.isInteger(code) && (code as number) <= CODE_MAX;
  return isOwn ? (code as number) : undefined;
}

/** Whether the collector itself says that it took nothing of the request. It answers 4xx, or 503 when it is busy. */
export function isRefusedByCollector(answer: Answer): boolean {
  const hasStatus = (answer.status >= 400 && answer.status < 500) || answer.status === 503;
  return hasStatus && collectorCode(answer) !== undefined;
}
