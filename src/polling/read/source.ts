import type { LeasedBytes } from "../../core/page-lease.ts";

/** The service as polling sees it; the directory's Insights client implements it. */
export interface Source {
  events(query: SourceQuery, scope: SourceScope, options: SourceOptions): Promise<SourcePage>;
  /** The size of the header block that this scope needs. */
  headerBytes(scope: SourceScope): number;
  /** Classifies a rejection. */
  fault(error: unknown): SourceFault;
}

export interface SourceOptions {
  readonly searchAfter?: string | undefined;
  readonly signal: AbortSignal;
  /** The caller holds `PageMemory.alone`: the body may exceed the memory budget. */
  readonly mayExceed?: boolean | undefined;
  /** How long the answer may take to begin, and may then pause, where that is shorter than for others. */
  readonly patienceMs?: number | undefined;
}

export interface SourceQuery {
  readonly service: readonly string[];
  readonly startTime: string;
  readonly endTime?: string | undefined;
  readonly limit: number;
  readonly sort: "ASC";
  readonly fields?: readonly string[] | undefined;
}

export interface SourceScope {
  readonly organizations?: readonly string[] | undefined;
  readonly provider?: string | undefined;
}

export interface SourcePage {
  readonly head: {
    readonly resultCount: number | undefined;
    readonly limit: number | undefined;
    readonly searchAfter: string | undefined;
    /** The order of the answer, as the service names it. */
    readonly sort?: string | undefined;
    readonly dateMs: number | undefined;
  };
  /** The lease becomes the caller's. */
  body(): Promise<LeasedBytes>;
  discard(): void;
}

/**
 * The kinds of failure; meet-fault.ts has the consequence of each. no_room: the bodies of all pages in flight
 * have used up the memory budget. bug: anything that is no answer of the service.
 */
export interface SourceFault {
  readonly kind:
    | "bad_request"
    | "unauthorized"
    | "not_entitled"
    | "forbidden"
    | "unknown_organization"
    | "headers_too_large"
    | "throttled"
    | "unavailable"
    | "cut_off"
    | "body_too_large"
    | "no_room"
    | "nonsense"
    | "bug";
  readonly message: string;
  readonly retryAfterMs?: number | undefined;
  /** Cut off by us: the body paused for too long, or came too slowly. */
  readonly isStalled?: boolean | undefined;
  /** The service's clock, where the answer had one. */
  readonly dateMs?: number | undefined;
}

/** Raised by polling itself when an answer contradicts itself; the consequence is that of nonsense. */
export class InconsistentPageError extends Error {
  override readonly name: string = "InconsistentPageError";
}

/** The page of a token came before: the service ignored the token, or it leads back. The consequence is that of a refused one. */
export class RepeatedPageError extends InconsistentPageError {
  override readonly name = "RepeatedPageError";

  constructor() {
    super("The service sent a page again when it was asked for the next one.");
  }
}

/** The body is no JSON array of objects: the page is halved until the bad event is found (R32). */
export class UnreadablePageError extends InconsistentPageError {
  override readonly name = "UnreadablePageError";
  /** The body, where a single event was asked for. */
  readonly body: Buffer | undefined;

  constructor(message: string, options: { readonly cause: unknown; readonly body: Buffer | undefined }) {
    super(message, { cause: options.cause });
    this.body = options.body;
  }
}
