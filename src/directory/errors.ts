/**
 * Failures between us and the service. Each type has one consequence for the caller, written
 * above it. None ever contains the key: messages of the service are bounded and cleaned before they get here.
 */

export interface ServiceFacts {
  /** The HTTP status; undefined when no answer came. */
  readonly status?: number | undefined;
  /** The service's message, cut to a bounded length. */
  readonly serviceMessage?: string | undefined;
  /** The service's own error code, where it gives one. */
  readonly code?: string | undefined;
  /** The service's words about single parts of the request, bounded in number and length. */
  readonly details?: readonly ServiceDetail[] | undefined;
  readonly requestId?: string | undefined;
  /** The service's clock when it answered. */
  readonly dateMs?: number | undefined;
  /** How long the service asked us to wait. */
  readonly retryAfterMs?: number | undefined;
  readonly cause?: unknown;
}

export interface ServiceDetail {
  /** The path of the part, such as `3.email`. */
  readonly field: string;
  readonly message: string;
}

export type ErrorKind =
  | "bad_request"
  | "unauthorized"
  | "not_entitled"
  | "forbidden"
  | "not_found"
  | "unknown_organization"
  | "headers_too_large"
  | "throttled"
  | "unavailable"
  | "cut_off"
  | "body_too_large"
  | "no_room"
  | "nonsense"
  | "bug";

/** Everything that a client of the service throws, except the reason of an aborted signal. */
export class DirectoryError extends Error {
  override readonly name: string = "DirectoryError";
  /** The type as a word, for those who must not know the types. */
  readonly kind: ErrorKind = "bug";
  readonly status: number | undefined;
  readonly serviceMessage: string | undefined;
  readonly code: string | undefined;
  readonly requestId: string | undefined;
  readonly dateMs: number | undefined;
  readonly retryAfterMs: number | undefined;
  readonly details: readonly ServiceDetail[];

  constructor(message: string, facts: ServiceFacts = {}) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.status = facts.status;
    this.serviceMessage = facts.serviceMessage;
    this.code = facts.code;
    this.requestId = facts.requestId;
    this.dateMs = facts.dateMs;
    this.retryAfterMs = facts.retryAfterMs;
    this.details = facts.details ?? [];
  }
}

/** 400, and any 4xx without a type of its own: the same request will be refused again (R6). */
export class BadRequestError extends DirectoryError {
  override readonly name = "BadRequestError";
  override readonly kind = "bad_request";
}

/** 401: the key, the client or the missing organization header is at fault; a person has to act. */
export class UnauthorizedError extends DirectoryError {
  override readonly name = "UnauthorizedError";
  override readonly kind = "unauthorized";
}

/** 402: Insights is not enabled, or the plan's history is shorter: tell a person, do not repeat in a loop. */
export class NotEntitledError extends DirectoryError {
  override readonly name = "NotEntitledError";
  override readonly kind = "not_entitled";
}

/** 403: wrong role, wrong region, or an organization header where none belongs (or none where one does). */
export class ForbiddenError extends DirectoryError {
  override readonly name = "ForbiddenError";
  override readonly kind = "forbidden";
}

/** 404: there is no such thing; asking again does not help. */
export class NotFoundError extends DirectoryError {
  override readonly name: string = "NotFoundError";
  override readonly kind: ErrorKind = "not_found";
}

/** 404 about an organization: it is set aside. */
export class UnknownOrganizationError extends NotFoundError {
  override readonly name = "UnknownOrganizationError";
  override readonly kind = "unknown_organization";
}

/** 431: ask with fewer organizations at once. */
export class HeadersTooLargeError extends DirectoryError {
  override readonly name = "HeadersTooLargeError";
  override readonly kind = "headers_too_large";
}

/** 429: the same again, slower, and not before `retryAfterMs`. */
export class ThrottledError extends DirectoryError {
  override readonly name = "ThrottledError";
  override readonly kind = "throttled";
}

/** 5xx or 408, or no answer at all: the same again, with back-off, and not before `retryAfterMs`. */
export class UnavailableError extends DirectoryError {
  override readonly name = "UnavailableError";
  override readonly kind = "unavailable";
}

/** The answer broke off (a cut connection, half a body, a time-out): the same again; what came is void. */
export class CutOffError extends DirectoryError {
  override readonly name: string = "CutOffError";
  override readonly kind = "cut_off";
}

/** The body paused for too long or came too slowly, and was given up: the same as a CutOffError. */
export class StalledError extends CutOffError {
  override readonly name = "StalledError";
}

/** The body is above the limit: ask for less at once (R8). */
export class BodyTooLargeError extends DirectoryError {
  override readonly name = "BodyTooLargeError";
  override readonly kind = "body_too_large";
}

/** Bodies in flight have used up the memory budget: ask for less at once, or alone. */
export class NoRoomError extends DirectoryError {
  override readonly name = "NoRoomError";
  override readonly kind = "no_room";
}

/** The answer is not what the specification says (no JSON, no array, a redirect, absurd headers): nothing of it is used. */
export class NonsenseError extends DirectoryError {
  override readonly name = "NonsenseError";
  override readonly kind = "nonsense";
}

/** The one error type of a refused request. `operation` is words such as `POST https://host/path`. */
export function refusalOf(operation: string, facts: ServiceFacts & { status: number }): DirectoryError {
  const message = `${operation}: ${facts.status} ${facts.serviceMessage ?? "without a message"}`;
  switch (facts.status) {
    case 401:
      return new UnauthorizedError(message, facts);
    case 402:
      return new NotEntitledError(message, facts);
    case 403:
      return new ForbiddenError(message, facts);
    case 404:
      return new NotFoundError(message, facts);
    case 429:
      return new ThrottledError(message, facts);
    case 431:
      return new HeadersTooLargeError(message, facts);
    case 408:
      return new UnavailableError(message, facts);
  }
  if (facts.status >= 500) return new UnavailableError(message, facts);
  if (facts.status >= 400) return new BadRequestError(message, facts);
  return new NonsenseError(`${operation}: the unexpected status ${facts.status}`, facts);
}
