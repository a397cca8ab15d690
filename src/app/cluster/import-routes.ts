import { z } from "zod";
import type { App } from "../../app.ts";
import type { Config } from "../../config/schema.ts";
import type { RouteCall } from "../../core/lane-requests.ts";
import { type Route, RouteError } from "../../core/route.ts";
import { importRouteShapes } from "../../imports/routes.ts";
import { errorOf, runRoute } from "../requests.ts";
import { laneOfImport } from "../shard.ts";
import type { Messenger } from "./messenger.ts";

/*
 * The HTTP API of imports over all lanes (C3). A job lives in the lane of its organization: a start is a request to that
 * lane. Jobs of all lanes have different numbers; a number's remainder is the lane, except for adopted jobs, which are
 * looked for in the others.
 */

type RunningLane = { readonly lane: number; readonly app: Pick<App, "imports"> };

/** Runs a reading operation in all lanes of this machine. */
export async function lookInLanes(
  running: readonly RunningLane[],
  call: RouteCall,
  signal: AbortSignal,
): Promise<unknown> {
  const answers = await Promise.allSettled(
    running.map(async ({ app }) => runRoute(app.imports.routes, call, signal)),
  );
  return mergeAnswers(call, answers);
}

export interface ClusterRoutesOptions {
  readonly config: Config;
  readonly lanes: number;
  readonly messenger: Pick<Messenger, "ask">;
  running(): readonly RunningLane[];
  /** Asks every other machine to look in its lanes. */
  lookElsewhere(call: RouteCall, signal: AbortSignal): readonly Promise<unknown>[];
}

const CHANGE_MS = 60_000;

export function clusterImportRoutes(options: ClusterRoutesOptions): readonly Route[] {
  return importRouteShapes().map((shape) => ({
    ...shape,
    run({ params, query, body, caller, signal }) {
      const call: RouteCall = {
        ...{ method: shape.method, path: shape.path, caller, params },
        // Defaults were filled in, and the schema takes them again.
        ...{ query, body },
      };
      if (shape.method === "GET") return look(options, call, signal);
      return shape.path === "/api/imports" ? start(options, call, signal) : changeJob(options, call, signal);
    },
  }));
}

async function look(options: ClusterRoutesOptions, call: RouteCall, signal: AbortSignal): Promise<unknown> {
  const own = options.running();
  const answers = await Promise.allSettled([
    ...(own.length === 0 ? [] : [lookInLanes(own, call, signal)]),
    ...options.lookElsewhere(call, signal),
  ]);
  return mergeAnswers(call, answers);
}

const startBody = z.object({
  import: z.string().optional(),
  account: z.string().optional(),
  organization: z.string().optional(),
});

function start(options: ClusterRoutesOptions, call: RouteCall, signal: AbortSignal): Promise<unknown> {
  const { config, lanes } = options;
  const { import: name, account, organization } = startBody.parse(call.body);
  const named = config.imports.find((one) => one.name === name);
  if (name !== undefined && named === undefined)
    throw new RouteError(404, `There is no import named ${JSON.stringify(name)}.`);
  const place = named ?? { account: account ?? "", organization };
  return change(options, laneOfImport(config, place.account, place.organization, lanes), call, signal);
}

async function changeJob(
  options: ClusterRoutesOptions,
  call: RouteCall,
  signal: AbortSignal,
): Promise<unknown> {
  const { id } = call.params as { readonly id: number };
  const first = id % options.lanes;
  try {
    return await change(options, first, call, signal);
  } catch (error) {
    if (!(error instanceof RouteError) || error.status !== 404) throw error;
  }
  const others = Array.from({ length: options.lanes }, (_, lane) => lane).filter((lane) => lane !== first);
  const answers = await Promise.allSettled(others.map((lane) => change(options, lane, call, signal)));
  return firstFound(answers);
}

async function change(
  { running, messenger }: ClusterRoutesOptions,
  lane: number,
  call: RouteCall,
  signal: AbortSignal,
): Promise<unknown> {
  const own = running().find((one) => one.lane === lane);
  if (own !== undefined) return runRoute(own.app.imports.routes, call, signal);
  const answer = await messenger.ask(lane, { kind: "route", call }, CHANGE_MS, signal);
  if (answer === undefined)
    throw new RouteError(
      504,
      `Lane ${lane} has not answered: the request is carried out as soon as a machine runs it. Look at the list of jobs before you ask again.`,
    );
  if (!answer.ok) throw errorOf(answer);
  return answer.value;
}

type Settled = readonly PromiseSettledResult<unknown>[];

function mergeAnswers({ path, query }: RouteCall, answers: Settled): unknown {
  const lists = <Row>(name: string) =>
    answers.flatMap((one) => (one.status === "fulfilled" ? (one.value as Record<string, Row[]>)[name]! : []));
  const limit = (query as { readonly limit?: number } | undefined)?.limit;
  const newest = <Row>(rows: readonly Row[], time: (row: Row) => string) =>
    rows.toSorted((a, b) => (time(a) < time(b) ? 1 : -1)).slice(0, limit);
  switch (path) {
    case "/api/imports":
      return { jobs: newest(lists<{ requestedAt: string }>("jobs"), (job) => job.requestedAt) };
    case "/api/imports/runs":
      return { runs: newest(lists<{ scheduledAt: string }>("runs"), (run) => run.scheduledAt) };
    case "/api/imports/definitions":
      return { imports: lists<{ name: string }>("imports").toSorted((a, b) => (a.name < b.name ? -1 : 1)) };
    default:
      return firstFound(answers);
  }
}

/** The job of one lane; else the reason that says more than "not found". */
function firstFound(answers: Settled): unknown {
  const found = answers.find((one) => one.status === "fulfilled");
  if (found !== undefined) return found.value;
  const reasons = answers.map((one) => (one as PromiseRejectedResult).reason as unknown);
  const isMissing = (reason: unknown) => reason instanceof RouteError && reason.status === 404;
  throw reasons.find((reason) => !isMissing(reason)) ?? reasons[0] ?? new RouteError(503, "No lane runs.");
}
