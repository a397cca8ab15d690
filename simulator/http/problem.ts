/** An answer other than success: thrown anywhere below the HTTP edge, which writes it. */
export class Problem extends Error {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly extra: Readonly<Record<string, unknown>>;

  constructor(
    status: number,
    message: string,
    more: { headers?: Readonly<Record<string, string>>; extra?: Readonly<Record<string, unknown>> } = {},
  ) {
    super(message);
    this.name = "Problem";
    this.status = status;
    this.headers = more.headers ?? {};
    this.extra = more.extra ?? {};
  }
}
