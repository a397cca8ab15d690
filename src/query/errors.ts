/** A query that is refused. The HTTP edge answers with the status and the message. */
export class QueryError extends Error {
  readonly status: 400 | 500;
  /** Further members of the answer's body. */
  readonly extra: Readonly<Record<string, unknown>>;

  constructor(status: 400 | 500, message: string, extra: Readonly<Record<string, unknown>> = {}) {
    super(message);
    this.name = "QueryError";
    this.status = status;
    this.extra = extra;
  }
}
