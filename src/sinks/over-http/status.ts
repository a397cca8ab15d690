import { PausedError, RetryableError, TooLargeError } from "../../core/errors.ts";
import { parseBounded } from "../../core/http/bounded-json.ts";
import type { Answer } from "../../core/http/requester.ts";

export interface StatusOptions {
  /** The destination as messages name it. */
  readonly destination: string;
  /** The destination's words, without the events' content. */
  readonly said?: string | undefined;
  /** Advice for a destination that refuses us. */
  readonly remedy: string;
}

/** These say something about our address, method or kind of request, never about one event of a batch. */
const NOT_ABOUT_EVENTS = new Set([401, 402, 403, 404, 405, 406, 407, 410, 411, 414, 415, 426, 431, 451]);

/**
 * The error for an HTTP status other than success, by the usual meaning; undefined when the destination may
 * have refused some of the events (400, 422 and the rest of 4xx).
 */
export function statusError(answer: Answer, options: StatusOptions): Error | undefined {
  const { status } = answer;
  const said = options.said ? `: ${options.said}` : ".";
  const message = `${options.destination} answered ${status}${said}`;
  if (status === 413) return new TooLargeError(message);
  if (status === 408 || status === 425 || status === 429 || status >= 500)
    return new RetryableError(message, { retryAfterMs: answer.retryAfterMs });
  if (NOT_ABOUT_EVENTS.has(status)) return new PausedError(message, options.remedy);
  if (status >= 300 && status < 400)
    return new PausedError(
      message,
      "The address has moved and redirects are not followed: configure the new one.",
    );
  if (status < 200) return new RetryableError(message);
  return undefined;
}

export function isSuccess(answer: Answer): boolean {
  return answer.status >= 200 && answer.status < 300;
}

/** The answer as a JSON object; undefined when it is none, or has too many values to be one. */
export function jsonOf(answer: Answer): Record<string, unknown> | undefined {
  try {
    const value = parseBounded(answer.text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

const SAID_LENGTH_MAX = 300;

/** A destination's words on one line, cut to a bounded length. */
export function saying(...words: readonly unknown[]): string | undefined {
  const text = words
    .filter((word) => (typeof word === "string" && word !== "") || typeof word === "number")
    .join(" ")
    .replace(/[\u0000-\u001f\u007f\s]+/g, " ")
    .trim();
  if (text === "") return undefined;
  return text.length > SAID_LENGTH_MAX ? `${text.slice(0, SAID_LENGTH_MAX)}…` : text;
}
