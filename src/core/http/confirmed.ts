import { RetryableError } from "../errors.ts";

/** What is known of an answer; a client library may have read the body already. */
export interface AnswerParts {
  readonly status: number;
  readonly text?: string;
  /** By name in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

export interface Confirmation<Parts extends AnswerParts> {
  /** The destination as messages name it. */
  readonly destination: string;
  /** What the destination answers when it has taken a request, in a few words. */
  readonly expected: string;
  isGiven(answer: Parts): boolean;
}

/**
 * True: the destination has taken the request. False: the status is not one of success. A status of success without
 * the destination's own confirmation throws RetryableError: a sign-in page, a proxy or another server at a wrong address
 * also answers 200, and stores nothing.
 */
export function isConfirmed<Parts extends AnswerParts>(answer: Parts, by: Confirmation<Parts>): boolean {
  if (answer.status < 200 || answer.status >= 300) return false;
  if (!by.isGiven(answer)) throw unconfirmed(answer, by);
  return true;
}

export function unconfirmed<Parts extends AnswerParts>(
  answer: Parts,
  { destination, expected }: Omit<Confirmation<Parts>, "isGiven">,
): RetryableError {
  return new RetryableError(
    `${destination} answered ${answer.status}${contentOf(answer)} instead of ${expected}. A proxy, a sign-in page or another server may have answered, so nothing counts as delivered. Check the address and the proxies on the way.`,
  );
}

/** The answer of a person's page, never that of an interface for programs. */
export function isWebPage(answer: AnswerParts): boolean {
  return /html/i.test(contentTypeOf(answer)) || /^\s*</.test(answer.text ?? "");
}

/** Kind and size alone: a server that repeats the request would bring events into the log. */
function contentOf(answer: AnswerParts): string {
  const type = contentTypeOf(answer)
    .replace(/[^\w./+-].*$/s, "")
    .slice(0, 60);
  const size = answer.text === undefined ? "" : ` of ${Buffer.byteLength(answer.text)} bytes`;
  if (isWebPage(answer)) return ` with a web page${size}`;
  if (answer.text === "") return " with an empty body";
  if (type === "" && answer.text === undefined) return "";
  return ` with ${type === "" ? "a body" : type}${size}`;
}

function contentTypeOf({ headers }: AnswerParts): string {
  return String(headers["content-type"] ?? "");
}
