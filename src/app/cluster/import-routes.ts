import { z } from "zod";
import type { App } from "../../app.ts";
import type { Config } from "../../config/schema.ts";
import type { RouteCall } from "../../core/lane-requests.ts";
import { type Route, RouteError } from "../../core/route.ts";
import { importRouteShapes } from "../../imports/routes.ts";
import { errorOf, runRoute } from "../requests.ts";
import { laneOfImport } from "../shard.ts";
import { type AskedLanes, everyLane, type Gathered, gather, incompleteText } from "./answers.ts";
import type { Messenger } from "./messenger.ts";

/*
 * The HTTP API of imports over all lanes (C3). A job lives in the lane of its organization: a start is a request to that
 * lane. Jobs of all lanes have different numbers; a number's remainder is the lane, except for adopted jobs, which are
 * looked for in the others.
 */

type RunningLane = { readonly lane: number; readonly app: Pick<App, "imports"> };

/** Runs a reading operation in all lanes of this machine. Whoever asks takes the value for that of every lane. */
export async function lookInLanes(
  running: readonly RunningLane[],
  call: RouteCall,
  signal: AbortSignal,
): Promise<unknown> {
  const { answers, failed } = await gather(inLanes(running, call, signal));
  const found = answers.map((one) => one.found);
  if (isOfOneJob(call)) return firstFound(found, failed);
  if (failed.length > 0) throw failed[0]!.reason;
  return mergeLists(call, found);
}

function inLanes(running: readonly RunningLane[], call: RouteCall, signal: AbortSignal) {
  return running.map(({ lane, app }): AskedLanes<unknown> => {
    const lanes = [lane];
    const ask = async () => ({ lanes, found: await runRoute(app.imports.routes, call, signal) });
    return { lanes, answer: ask() };
  });
}

export interface ClusterRoutesOptions {
  readonly config: Config;
  readonly lanes: number;
  readonly messenger: Pick<Messenger, "ask">;
  running(): readonly RunningLane[];
  /** Asks every other machine to look in its lanes. */
  lookElsewhere(call: RouteCall): readonly AskedLanes<unknown>[];
}

const CHANGE_MS = 60_000;

export function clusterImportRoutes(options: ClusterRoutesOptions): readonly Route[] {
  return importRouteShapes().map((shape) => ({
    ...shape,
    run({ params, query, body, caller, signal, stopped }) {
      const call: RouteCall = {
        ...{ method: shape.method, path: shape.path, caller, params },
        // Defaults were filled in, and the schema takes them again.
        ...{ query, body },
      };
      if (shape.method === "GET") return look(options, call, signal);
      return shape.path === "/api/imports"
        ? start(options, call, stopped)
        : changeJob(options, call, stopped);
    },
  }));
}

async function look(options: ClusterRoutesOptions, call: RouteCall, signal: AbortSignal): Promise<unknown> {
  const asked = [...inLanes(options.running(), call, signal), ...options.lookElsewhere(call)];
  const gathered = await gather(asked);
  const found = gathered.answers.map((one) => one.found);
  if (!isOfOneJob(call)) {
    const incomplete = incompleteText(gathered, everyLane(options.lanes));
    return { ...mergeLists(call, found), ...(incomplete === undefined ? {} : { incomplete }) };
  }
  // A lane that has no such job has answered.
  const without = gathered.failed.filter(({ reason }) => isNotFound(reason));
  const heard = [...gathered.answers, ...without.map(({ lanes }) => ({ lanes, found: undefined }))];
  const incomplete = incompleteText({ ...gathered, answers: heard }, everyLane(options.lanes));
  const unknownYet =
    incomplete === undefined
      ? undefined
      : new RouteError(503, `${incomplete}. The job may be there: ask again when every lane runs.`);
  return firstFound(found, gathered.failed, unknownYet);
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
  const others = everyLane(options.lanes).filter((lane) => lane !== first);
  const { answers, failed } = await gather(
    others.map((lane) => ({
      lanes: [lane],
      answer: change(options, lane, call, signal).then((found) => ({ lanes: [lane], found })),
    })),
  );
  return firstFound(
    answers.map((one) => one.found),
    failed,
  );
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

/** Everything below a job's number. A list is in every lane, a job in one. */
function isOfOneJob({ path }: RouteCall): boolean {
  return path.startsWith("/api/imports/:id");
}

function mergeLists(
  { path, query }: RouteCall,
  found: readonly unknown[],
): Readonly<Record<string, unknown>> {
  const lists = <Row>(name: string) => found.flatMap((one) => (one as Record<string, Row[]>)[name]!);
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
      throw new RouteError(404, `This version has no list ${path}.`);
  }
}

export function isNotFound(reason: unknown): boolean {
  return reason instanceof RouteError && reason.status === 404;
}

/** The job of one lane; else the reason that says more than "not found". */
function firstFound(
  found: readonly unknown[],
  failed: Gathered<unknown>["failed"],
  more?: RouteError,
): unknown {
  if (found.length > 0) return found[0];
  const reasons = failed.map(({ reason }) => reason);
  throw (
    more ??
    reasons.find((reason) => !isNotFound(reason)) ??
    reasons[0] ??
    new RouteError(503, "No lane runs.")
  );
}
