/**
 * An operation of the HTTP server that reads headers and body itself and answers with bytes. It checks its caller
 * on its own; the server has checked host name, rate and size before.
 */
export interface RawRoute {
  readonly method: "GET" | "POST";
  readonly path: string;
  run(input: RawInput): Promise<RawAnswer>;
}

export interface RawInput {
  /** Names and values in turn, as they came. */
  readonly rawHeaders: readonly string[];
  readonly query: Readonly<Record<string, unknown>>;
  readonly body: Buffer;
  /** True where the request has the server's own token that may change things. */
  readonly isAdministrator: boolean;
  readonly address: string;
  /** Aborts when the client goes away or the server stops. */
  readonly signal: AbortSignal;
}

export interface RawAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** The values of a header, in lower case, that may be repeated or have commas in it. */
export function headerValues(rawHeaders: readonly string[], name: string): string[] {
  const values: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2)
    if (rawHeaders[at]!.toLowerCase() === name)
      values.push(...rawHeaders[at + 1]!.split(",").map((value) => value.trim()));
  return values;
}
