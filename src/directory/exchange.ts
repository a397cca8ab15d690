import type { Clock } from "../core/clock.ts";
import type { Auth } from "./auth.ts";
import { BadRequestError, DirectoryError, NonsenseError, refusalOf } from "./errors.ts";
import { bounded, factsOf } from "./facts.ts";
import type { Transport, TransportRequest, TransportResponse } from "./transport.ts";

const REDIRECTS_MAX = 3;

/** An answer of 200 to 299; everything else is an error of errors.ts or the signal's reason. */
export type Exchange = (request: TransportRequest) => Promise<TransportResponse>;

/**
 * A request in our name: the auth header added, one renewal after a 401, redirects followed only inside
 * the origin, refusals as types.
 */
export function exchangeOf(transport: Transport, auth: Auth, clock: Clock): Exchange {
  return async (request) => {
    let url = request.url;
    let mayRenew = true;
    for (let redirects = 0; ; ) {
      const proof = await auth.prove({ method: request.method, url }, request.signal);
      const response = await transport.send({ ...request, url, headers: [...proof, ...request.headers] });
      const target = redirectOf(response, request, url);
      if (target !== undefined) {
        response.discard();
        if (redirects++ === REDIRECTS_MAX)
          throw new NonsenseError(`${whereOf(request)}: redirected in circles`);
        url = target;
        continue;
      }
      if (response.status >= 200 && response.status < 300) return response;
      const refusal = await refused(response, request, auth, clock);
      if (response.status !== 401 || !mayRenew || !(await auth.renew(proof, request.signal))) throw refusal;
      mayRenew = false;
      redirects = 0;
      url = request.url;
    }
  };
}

/** Where a redirect leads, if it may be followed: never to another origin, and a write only where it stays one. */
function redirectOf(response: TransportResponse, request: TransportRequest, from: URL): URL | undefined {
  if (response.status < 301 || response.status > 308) return undefined;
  const location = response.header("location");
  if (location === undefined || !URL.canParse(location, from.href)) return undefined;
  const target = new URL(location, from);
  if (target.origin !== from.origin) {
    response.discard();
    throw new NonsenseError(
      `${whereOf(request)}: redirected to ${bounded(target.origin, 200)}; the key is not sent there. If that is the right address, set it in the config.`,
      { status: response.status },
    );
  }
  const keepsMethod = response.status === 307 || response.status === 308;
  return keepsMethod || request.method === "GET" ? target : undefined;
}

async function refused(
  response: TransportResponse,
  request: TransportRequest,
  auth: Auth,
  clock: Clock,
): Promise<DirectoryError> {
  const body = await errorBody(response, request.signal);
  return refusalOf(whereOf(request), factsOf(response, clock, auth.clean, body));
}

/** The status counts even where the body that belongs to it breaks off or is too large. */
async function errorBody(response: TransportResponse, signal: AbortSignal): Promise<Buffer | undefined> {
  try {
    return await response.body();
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    if (error instanceof DirectoryError) return undefined;
    throw error;
  }
}

export function whereOf(request: Pick<TransportRequest, "method" | "url">): string {
  return `${request.method} ${request.url.origin}${request.url.pathname}`;
}

/** A header value that cannot split a request; ids come from a config file or from the service. */
export function headerValue(name: string, value: string): string {
  if (!/^[\x21-\x7e]{1,200}$/.test(value)) {
    throw new BadRequestError(
      `The ${name} ${JSON.stringify(value.slice(0, 50))} holds characters that no header can carry.`,
    );
  }
  return value;
}
