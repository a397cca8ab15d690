import type { Position } from "./position.ts";

/**
 * The four errors between a sink and delivery. Each has exactly one consequence. Any other error is unexpected:
 * delivery retries it and raises an alarm (R38).
 */

/** Delivery sends the same batch again, with back-off. */
export class RetryableError extends Error {
  override readonly name = "RetryableError";
  /** The delay before the next attempt: the destination asked for it (Retry-After), or the sink knows it. Absent: back-off. */
  readonly retryAfterMs: number | undefined;
  /** Indexes of the records that are not written yet. Absent: none was written. */
  readonly remaining: readonly number[] | undefined;
  /** What the operator can do if it persists. Absent: to look at the destination. */
  readonly remedy: string | undefined;

  constructor(
    message: string,
    options: {
      cause?: unknown;
      retryAfterMs?: number | undefined;
      remaining?: readonly number[] | undefined;
      remedy?: string | undefined;
    } = {},
  ) {
    super(message, { cause: options.cause });
    this.retryAfterMs = options.retryAfterMs;
    this.remaining = options.remaining;
    this.remedy = options.remedy;
  }
}

/** Delivery halves the batch and sends it again. A single record that is too large becomes a dead letter. */
export class TooLargeError extends Error {
  override readonly name = "TooLargeError";
}

export interface Rejection {
  /** Index into the batch's records. */
  readonly index: number;
  /** Why, in one sentence, without the event's content and without secrets. */
  readonly reason: string;
  /** The destination's own answer as it came, without secrets. */
  readonly answer?: string | undefined;
  /** It is too old for the destination: no repair of the destination or the config changes that. */
  readonly isOld?: boolean | undefined;
}

/** These records become dead letters with their reasons. Delivery continues with the others. */
export class RejectedEventsError extends Error {
  override readonly name = "RejectedEventsError";
  readonly rejected: readonly Rejection[];
  /** Indexes of the records that are not written yet. Absent: all others were written. */
  readonly remaining: readonly number[] | undefined;
  /** The destination refused them all because of some and did not say which: delivery halves the batch until they are alone. */
  readonly isUnnamed: boolean;

  constructor(
    message: string,
    rejected: readonly Rejection[],
    options: { cause?: unknown; remaining?: readonly number[] | undefined; isUnnamed?: boolean } = {},
  ) {
    super(message, { cause: options.cause });
    this.rejected = rejected;
    this.remaining = options.remaining;
    this.isUnnamed = options.isUnnamed ?? false;
  }
}

/** The destination refuses us (wrong token, no permission). Delivery pauses, raises an alarm and probes. */
export class PausedError extends Error {
  override readonly name = "PausedError";
  /** What the operator can do about it. */
  readonly remedy: string;

  constructor(message: string, remedy: string, options: { cause?: unknown } = {}) {
    super(message, options);
    this.remedy = remedy;
  }
}

/** The operator has to decide before this part can continue. Nothing was skipped or truncated. */
export class DecisionNeededError extends Error {
  override readonly name = "DecisionNeededError";
  readonly choices: readonly string[];

  constructor(message: string, choices: readonly string[], options: { cause?: unknown } = {}) {
    super(message, options);
    this.choices = choices;
  }
}

/** A page of the journal cannot be read. */
export class DamagedPageError extends DecisionNeededError {
  /** The position after it. */
  readonly behind: Position;

  constructor(message: string, choices: readonly string[], behind: Position) {
    super(message, choices);
    this.behind = behind;
  }
}

/** Wrong usage or config; exit code 2. Each line says what is wrong and what to do. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** True for errors of a full, failing or busy disk. They end when the operator frees space. */
export function isDiskTrouble(error: unknown): boolean {
  return /^(SQLITE_(FULL|IOERR|BUSY|READONLY|CANTOPEN)|ENOSPC|EDQUOT|EIO)/.test(
    (error as { code?: string } | null)?.code ?? "",
  );
}

/** The message of an error, with the choices of an operator who has to decide. */
export function explainWithChoices(error: unknown): string {
  const said = explain(error);
  return error instanceof DecisionNeededError ? `${said} Choose one: ${error.choices.join("; ")}.` : said;
}

/** The message of an error, followed by the messages of its causes. */
export function explain(error: unknown): string {
  const parts: string[] = [];
  for (let at: unknown = error, depth = 0; at !== undefined && depth < 5; depth++) {
    const message = at instanceof Error ? at.message || at.name : String(at);
    if (message !== "" && !parts.some((part) => part.includes(message))) parts.push(message);
    at = at instanceof Error ? at.cause : undefined;
  }
  return parts.map((part, at) => (at < parts.length - 1 ? part.replace(/[.:\s]+$/, "") : part)).join(": ");
}
