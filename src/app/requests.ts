import { type Actions, isRepeatable, perform, UnknownNameError } from "../core/actions.ts";
import { explainWithChoices, UsageError } from "../core/errors.ts";
import { type LaneOutcome, routeCallSchema } from "../core/lane-requests.ts";
import type { Log } from "../core/log.ts";
import { type Route, RouteError } from "../core/route.ts";
import { type ChangeRequest, type createRequests, INTERRUPTED } from "../journal/command-queue.ts";

/** How a request for an operation of the HTTP API is stored; every other kind is an action. */
export const ROUTE_REQUEST = "route";

export interface RequestExtras {
  readonly routes: readonly Route[];
  /** Sends the outcome of a request that came from another machine. */
  answer(origin: string, outcome: LaneOutcome): Promise<void>;
  /**
   * Operations of the HTTP API that go on beside the others, by request: the start of an import waits for the service.
   * To be awaited before the state closes. Without it each one is awaited.
   */
  readonly underWay?: UnderWay;
}

export interface UnderWay {
  readonly byRequest: Map<number, Promise<void>>;
  /** Thrown by the next call. */
  readonly failures: unknown[];
  settled(): Promise<unknown>;
}

export function createUnderWay(): UnderWay {
  const byRequest: UnderWay["byRequest"] = new Map();
  return { byRequest, failures: [], settled: () => Promise.all(byRequest.values()) };
}

/**
 * Carries out the requests that commands, and other machines of a cluster, left for the running process (R15, C3). States
 * of a request:
 *   open     stored
 *   started  marked before the work begins
 *   done     stored with its result; a machine that asked gets the result then
 * A command withdraws its request when it stops waiting. One that a killed command left open is not carried out
 * minutes later: what it named may have changed.
 * A process that ends between started and done leaves a request that may have been carried out. The next
 * process repeats it where a repeat finds nothing left to do, and reports it as interrupted otherwise.
 */
export async function carryOutRequests(
  requests: ReturnType<typeof createRequests>,
  actions: Actions,
  log: Log,
  signal: AbortSignal,
  extras?: RequestExtras,
): Promise<void> {
  const { underWay } = extras ?? {};
  const one = async (request: ChangeRequest) => {
    const outcome = await carryOut(request, requests, actions, log, signal, extras?.routes ?? []);
    if (outcome === undefined) return;
    await requests.finish(request.id, outcome);
    if (request.origin !== null) await extras?.answer(request.origin, outcome);
  };
  if (underWay !== undefined && underWay.failures.length > 0) throw underWay.failures.shift();
  for (const request of requests.open()) {
    if (signal.aborted) return;
    if (underWay?.byRequest.has(request.id)) continue;
    if (request.kind !== ROUTE_REQUEST || underWay === undefined) {
      await one(request);
      continue;
    }
    const work = one(request)
      .catch((error: unknown) => void underWay.failures.push(error))
      .finally(() => underWay.byRequest.delete(request.id));
    underWay.byRequest.set(request.id, work);
  }
}

/** undefined: the process ends. */
async function carryOut(
  { id, kind, body, wasStarted, isExpired }: ChangeRequest,
  requests: ReturnType<typeof createRequests>,
  actions: Actions,
  log: Log,
  signal: AbortSignal,
  routes: readonly Route[],
): Promise<LaneOutcome | undefined> {
  if (isExpired) {
    log.warn(
      { kind, request: id },
      "An old request of a command that was ended is not carried out. Ask again.",
    );
    return { ok: false, message: EXPIRED };
  }
  if (wasStarted && !isRepeatable(kind, body)) {
    log.error({ kind, request: id }, "A request was interrupted by a crash.");
    return failureOf(new RouteError(504, kind === ROUTE_REQUEST ? INTERRUPTED_IMPORT : INTERRUPTED));
  }
  try {
    await requests.start(id);
    if (kind === ROUTE_REQUEST) return { ok: true, message: "", value: await runRoute(routes, body, signal) };
    const done = await perform(actions, kind, body, signal);
    if (!wasStarted) return { ok: true, ...done };
    log.info({ kind, request: id }, "A request that a crash interrupted is carried out.");
    return { ok: true, ...done, message: `${CONTINUED} ${done.message}` };
  } catch (error) {
    if (signal.aborted) return undefined;
    if (wasStarted) log.error({ err: error, kind, request: id }, "A request was interrupted by a crash.");
    else log.warn({ err: error, kind }, "A request could not be carried out.");
    return failureOf(error);
  }
}

/** Runs the operation of the HTTP API that a call names. */
export function runRoute(routes: readonly Route[], call: unknown, signal: AbortSignal): Promise<unknown> {
  const { method, path, params, query, body, caller } = routeCallSchema.parse(call);
  const route = routes.find((one) => one.method === method && one.path === path);
  if (route === undefined) throw new RouteError(404, `This version has no ${method} ${path}.`);
  return route.run({
    params: route.params.parse(params),
    query: route.query.parse(query),
    body: route.body?.parse(body),
    ...{ caller, signal, stopped: signal },
  });
}

/** An error as it travels to another machine; errorOf makes it an error again. */
export function failureOf(error: unknown): LaneOutcome {
  const message = explainWithChoices(error);
  if (error instanceof RouteError)
    return { ok: false, message: error.message, error: "route", status: error.status, value: error.body };
  if (error instanceof UnknownNameError) return { ok: false, message, error: "unknown_name" };
  if (error instanceof UsageError) return { ok: false, message, error: "usage" };
  return { ok: false, message };
}

export function errorOf({ message, error, status, value }: LaneOutcome): Error {
  switch (error) {
    case "route":
      return new RouteError(status ?? 500, message, { body: (value ?? {}) as Record<string, unknown> });
    case "unknown_name":
      return new UnknownNameError(message);
    case "usage":
      return new UsageError(message);
    default:
      return new Error(message);
  }
}

const INTERRUPTED_IMPORT =
  "The machine ended while it carried this out. What it had stored by then goes on, so a job may have begun. Look at the list of jobs before you ask again.";
const EXPIRED =
  "The command that asked for this has ended without an answer, so it was not carried out. Ask again.";
const CONTINUED =
  "The process before ended while it carried this out. What was left of it is done now, and the figures are about that part.";
