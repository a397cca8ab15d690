/**
 * The four errors between a sink and delivery. Each has one consequence; anything else that a sink
 * throws is a bug and stops that sink visibly.
 */

/** The same batch again, with back-off. */
export class RetryableError extends Error {
  override readonly name = "RetryableError";
  /** What the destination asked for (Retry-After), if it did. */
  readonly retryAfterMs: number | undefined;
  /** Indexes into the batch's records that are not written yet; absent: none is. */
  readonly remaining: readonly number[] | undefined;

  constructor(
    message: string,
    options: {
      cause?: unknown;
      retryAfterMs?: number | undefined;
      remaining?: readonly number[] | undefined;
    } = {},
  ) {
    super(message, { cause: options.cause });
    this.retryAfterMs = options.retryAfterMs;
    this.remaining = options.remaining;
  }
}

/** The batch is halved and sent again; a single record that is too large becomes a dead letter. */
export class TooLargeError extends Error {
  override readonly name = "TooLargeError";
}

export interface Rejection {
  /** Index into the batch's records. */
  readonly index: number;
  /** What the destination said, without the event's content and without secrets. */
  readonly reason: string;
}

/** These records become dead letters with their reason; the rest go on. */
export class RejectedEventsError extends Error {
  override readonly name = "RejectedEventsError";
  readonly rejected: readonly Rejection[];
  /** Indexes of records that are still to be written; absent: all but the rejected are written. */
  readonly remaining: readonly number[] | undefined;

  constructor(
    message: string,
    rejected: readonly Rejection[],
    options: { cause?: unknown; remaining?: readonly number[] | undefined } = {},
  ) {
    super(message, { cause: options.cause });
    this.rejected = rejected;
    this.remaining = options.remaining;
  }
}

/** The destination refuses us (wrong token, no permission): stop, alarm, probe now and then, lose nothing. */
export class PausedError extends Error {
  override readonly name = "PausedError";
  /** What a person can do about it. */
  readonly remedy: string;

  constructor(message: string, remedy: string, options: { cause?: unknown } = {}) {
    super(message, options);
    this.remedy = remedy;
  }
}

/** A person has to decide before this part can go on; nothing was skipped or truncated. */
export class DecisionNeededError extends Error {
  override readonly name = "DecisionNeededError";
  readonly choices: readonly string[];

  constructor(message: string, choices: readonly string[], options: { cause?: unknown } = {}) {
    super(message, options);
    this.choices = choices;
  }
}

/** Wrong usage or config: exit code 2. Every line says what is wrong and what to do. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** A disk that is full, failing or busy, told by SQLite or by the system: it passes when a person makes room. */
export function isDiskTrouble(error: unknown): boolean {
  return /^(SQLITE_(FULL|IOERR|BUSY|READONLY|CANTOPEN)|ENOSPC|EDQUOT|EIO)/.test(
    (error as { code?: string } | null)?.code ?? "",
  );
}

/** The message of an error with the messages of its causes. */
export function explain(error: unknown): string {
  const parts: string[] = [];
  for (let at: unknown = error, depth = 0; at !== undefined && depth < 5; depth++) {
    const message = at instanceof Error ? at.message || at.name : String(at);
    if (message !== "" && !parts.some((part) => part.includes(message))) parts.push(message);
    at = at instanceof Error ? at.cause : undefined;
  }
  return parts.join(": ");
}
