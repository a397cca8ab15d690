import type { App } from "../../app.ts";
import type { Config } from "../../config/schema.ts";
import {
  ACTIONS,
  type ActionKind,
  type ActionResult,
  type Actions,
  lettersResult,
} from "../../core/actions.ts";
import { type Clock, systemClock } from "../../core/clock.ts";
import { explain, UsageError } from "../../core/errors.ts";
import { RouteError } from "../../core/route.ts";
import { numberInLane, shareOf } from "../../core/shard.ts";
import { errorOf } from "../requests.ts";
import type { Messenger } from "./messenger.ts";

/*
 * Actions of a person over all lanes (C3). Each lane gets its part of what was asked: at once where it runs here, as a
 * request where another machine runs it. A lane that has no such dead letter or organization refuses, and another has
 * it. Where a lane fails, the action fails, and its message says what the other lanes did. Lanes that did not answer are
 * named: they carry it out later.
 */

export interface ClusterActionsOptions {
  readonly lanes: number;
  readonly messenger: Pick<Messenger, "ask">;
  /** The provider's own stream is read by lane 0, whatever its id. */
  readonly providers: readonly string[];
  /** The names of the sinks in the config. */
  readonly sinks: readonly string[];
  /** The lanes that run here now. */
  running(): readonly { readonly lane: number; readonly app: Pick<App, "actions"> }[];
  readonly answerMs?: number | undefined;
  readonly clock?: Clock | undefined;
}

type AnyAction = (body: unknown, signal: AbortSignal) => Promise<ActionResult>;

const ANSWER_MS = 30_000;
/** The status of the HTTP answer where a lane failed. */
const PARTLY_DONE = 502;

interface LaneResult {
  readonly lane: number;
  readonly result?: ActionResult;
  readonly error?: unknown;
}

export function createClusterActions(options: ClusterActionsOptions): Actions {
  const { lanes, messenger, running, answerMs = ANSWER_MS, clock = systemClock } = options;

  async function inLane(
    lane: number,
    action: ActionKind,
    body: unknown,
    signal: AbortSignal,
  ): Promise<LaneResult> {
    try {
      const own = running().find((one) => one.lane === lane);
      if (own !== undefined)
        return { lane, result: await (own.app.actions[action] as AnyAction)(body, signal) };
      const answer = await messenger.ask(lane, { kind: "action", action, body }, answerMs, signal);
      if (answer === undefined) return { lane };
      if (!answer.ok) return { lane, error: errorOf(answer) };
      const { message, count = 0, waiting } = answer;
      return { lane, result: { message, count, waiting } };
    } catch (error) {
      if (signal.aborted) throw error;
      return { lane, error };
    }
  }

  const act =
    (kind: ActionKind): AnyAction =>
    async (asked, signal) => {
      const body = isAboutLetters(kind) ? { untilMs: clock.now(), ...(asked as LettersBody) } : asked;
      const parts = Array.from({ length: lanes }, (_, lane) => ({
        lane,
        body: partOf(lane, body as AnyBody, options),
      })).filter((part) => part.body !== undefined);
      const results = await Promise.all(parts.map((part) => inLane(part.lane, kind, part.body, signal)));
      const operation = (body as AnyBody).operation?.kind;
      const wrong = wrongOf(results, kind, operation);
      const merge = kind === "archive" || kind === "resume" ? mergeByLane : mergeResults;
      const merged = merge(results, wrong, kind, operation);
      if (isAboutLetters(kind)) checkMatched(body as LettersBody, options, results, merged);
      // The message says what the others did. A script has to notice that a part is missing.
      if (wrong.length > 0)
        throw new RouteError(PARTLY_DONE, merged.message, { body: { count: merged.count } });
      return merged;
    };
  return Object.fromEntries(
    (Object.keys(ACTIONS) as ActionKind[]).map((kind) => [kind, act(kind)]),
  ) as unknown as Actions;
}

export function providersOf({ accounts }: Pick<Config, "accounts">): readonly string[] {
  return accounts.flatMap(({ provider }) => (provider === undefined ? [] : [provider.toLowerCase()]));
}

export function sinkNamesOf({ sinks }: Pick<Config, "sinks">): readonly string[] {
  return sinks.map(({ name }) => String(name));
}

interface LettersBody extends AnyBody {
  readonly sink?: string | undefined;
  readonly group?: string | undefined;
  /** A lane may carry the request out later: letters that are refused by then are not part of it. */
  readonly untilMs?: number | undefined;
}

function isAboutLetters(kind: ActionKind): kind is "replay" | "drop" {
  return kind === "replay" || kind === "drop";
}

/** A mistyped name is an error, once all lanes have answered. A sink of the config may have no letters. */
function checkMatched(
  { ids, group, sink }: LettersBody,
  { sinks }: Pick<ClusterActionsOptions, "sinks">,
  results: readonly LaneResult[],
  { count, waiting = 0 }: ActionResult,
): void {
  const isNamed = ids !== undefined || group !== undefined || (sink !== undefined && !sinks.includes(sink));
  if (!isNamed || count + waiting > 0 || results.some(({ result }) => result === undefined)) return;
  throw new UsageError(
    'No dead letter matches, so nothing was changed. "tidemark dead-letters list" shows them.',
  );
}

interface AnyBody {
  readonly ids?: readonly number[] | undefined;
  readonly organizations?: readonly string[] | undefined;
  readonly lane?: number | undefined;
  readonly operation?: {
    readonly kind?: string | undefined;
    readonly organization?: string | undefined;
    readonly organizations?: unknown;
  };
}

/** A lane's part of what was asked. Dead letters have numbers among all lanes; undefined: nothing of it is in this lane. */
function partOf(
  lane: number,
  body: AnyBody,
  { lanes, providers }: Pick<ClusterActionsOptions, "lanes" | "providers">,
): unknown {
  if (body.ids !== undefined) {
    const ids = body.ids.map(numberInLane).filter((one) => one.lane === lane);
    return ids.length === 0 ? undefined : { ...body, ids: ids.map(({ id }) => id) };
  }
  if (body.lane !== undefined) return body.lane === lane ? body : undefined;
  // Owners in archives such as `provider:…` and `account:…` are lane 0's.
  const laneOf = (id: string) =>
    id.includes(":") || providers.includes(id.toLowerCase()) ? 0 : shareOf(id, lanes);
  if (body.operation !== undefined) return archivePart(body, body.operation, (id) => laneOf(id) === lane);
  if (body.organizations === undefined) return body;
  const organizations = body.organizations.filter((id) => laneOf(id) === lane);
  return organizations.length === 0 ? undefined : { ...body, organizations };
}

/** An erasure goes to the lane of its organization, a hold to those of its organizations, anything else to all. */
function archivePart(
  body: AnyBody,
  operation: NonNullable<AnyBody["operation"]>,
  isHere: (organization: string) => boolean,
): unknown {
  const { organization, organizations } = operation;
  if (organization !== undefined) return isHere(organization) ? body : undefined;
  if (!Array.isArray(organizations) || organizations.length === 0) return body;
  const own = (organizations as string[]).filter(isHere);
  return own.length === 0 ? undefined : { ...body, operation: { ...operation, organizations: own } };
}

/** The lanes that failed. A lane refuses what it does not have; anything else went wrong. */
function wrongOf(
  results: readonly LaneResult[],
  kind: ActionKind,
  operation: string | undefined,
): readonly LaneResult[] {
  // A hold is released in the lane that has it. All other changes of an archive concern every lane that is asked.
  const isElsewhere = kind !== "archive" || operation === "release";
  return results.filter(({ error }) => error !== undefined && !(isElsewhere && error instanceof UsageError));
}

/** Each lane has an archive of its own, and a position for each sink, so each says what it did. */
function mergeByLane(
  results: readonly LaneResult[],
  wrong: readonly LaneResult[],
  kind: ActionKind,
  operation: string | undefined,
): ActionResult {
  const { count } = mergeResults(results, wrong, kind);
  const isList = operation === "holds";
  const lines = results.flatMap((one) => {
    const { lane, result, error } = one;
    if (result !== undefined) return [`Lane ${lane}: ${result.message}`];
    if (error === undefined) return [isList ? `Lane ${lane} has not answered.` : laterText([lane])];
    return wrong.includes(one) ? [wrongText(one)] : [];
  });
  // What is not in a list cannot be told from what is not on hold, so a script must notice.
  if (isList && results.some(({ result }) => result === undefined))
    throw new Error([...lines, "The list of holds is not complete: try again."].join("\n"));
  return { count, message: lines.join("\n") };
}

function mergeResults(
  results: readonly LaneResult[],
  wrong: readonly LaneResult[],
  kind: ActionKind,
): ActionResult {
  const done = results.flatMap(({ result }) => (result === undefined ? [] : [result]));
  const silent = results.filter(({ result, error }) => result === undefined && error === undefined);
  const later = silent.length === 0 ? "" : laterText(silent.map(({ lane }) => lane));
  const notIn = wrong.map(wrongText);
  if (done.length === 0) {
    if (silent.length > 0) return { count: 0, message: [...notIn, later].join(" ") };
    const failed = wrong[0] ?? results.find(({ error }) => error !== undefined);
    throw failed?.error ?? new UsageError("No lane has anything of this.");
  }
  const count = done.reduce((sum, one) => sum + one.count, 0);
  const waiting = done.reduce((sum, one) => sum + (one.waiting ?? 0), 0);
  const said = isAboutLetters(kind)
    ? lettersResult(kind, count, waiting)
    : (done.find((one) => one.count > 0) ?? done[0]!);
  const inLanes =
    done.length === 1 || isAboutLetters(kind) ? [] : [`(In ${done.length} lanes; ${count} altogether.)`];
  return {
    ...said,
    count,
    message: [said.message, ...inLanes, ...notIn, later].filter((text) => text !== "").join(" "),
  };
}

function wrongText({ lane, error }: LaneResult): string {
  return `Lane ${lane} could not: ${explain(error)}`;
}

function laterText(lanes: readonly number[]): string {
  const which = lanes.length === 1 ? `Lane ${lanes[0]} has` : `Lanes ${lanes.join(", ")} have`;
  return `${which} not answered yet: the request is carried out as soon as a machine runs ${lanes.length === 1 ? "it" : "them"}.`;
}
