import { z } from "zod";
import { ACTIONS, type Actions } from "../core/actions.ts";
import { reasonGroupOf } from "../core/reason-group.ts";
import { defineRoute, type Route, RouteError, type RouteInput } from "../core/route.ts";
import { archivesSchema } from "../core/view/archives.ts";
import {
  type DeadLettersView,
  deadLetterBodySchema,
  deadLettersQuerySchema,
  deadLettersSchema,
} from "../core/view/dead-letters.ts";
import { driftSchema, recentSchema } from "../core/view/events.ts";
import { incomplete } from "../core/view/fields.ts";
import { gapsQuerySchema, gapsSchema } from "../core/view/gaps.ts";
import { organizationsQuerySchema, organizationsSchema } from "../core/view/organizations.ts";
import { type PeersView, peersSchema } from "../core/view/peers.ts";
import { sinksSchema } from "../core/view/sinks.ts";
import { alarmSchema, ratesSchema, statusSchema } from "../core/view/status.ts";
import { calendarSchema, windowsQuerySchema, windowsSchema } from "../core/view/windows.ts";
import type { View } from "../core/view.ts";
import { isTokenHolder } from "./access.ts";

const none = z.strictObject({});
const idParams = z.strictObject({
  id: z.coerce.number().int().positive().meta({ description: "The dead letter's number." }),
});
const limit = (most: number, usual: number) =>
  z.coerce.number().int().min(1).max(most).default(usual).meta({ description: "How many at the most." });

/** This process and the other shards of the config. */
export function peersRoute(list: (signal: AbortSignal) => Promise<PeersView>): Route {
  return defineRoute({
    method: "GET",
    path: "/api/peers",
    summary: "Every shard of server.peers, this one included: health, totals, worst sink, alarms.",
    scope: "read",
    params: none,
    query: none,
    body: undefined,
    response: peersSchema,
    run: ({ signal }) => list(signal),
  });
}

/** Reads of the view, below /api. */
export function viewRoutes(view: View): readonly Route[] {
  return [
    read("/api/status", "How everything is: accounts, journal, totals, alarms.", none, statusSchema, () =>
      view.status(),
    ),
    read("/api/rates", "Events a second over the last hour.", none, ratesSchema, async () => view.rates()),
    read(
      "/api/organizations",
      "Organizations, the one furthest behind first.",
      organizationsQuerySchema,
      organizationsSchema,
      (query) => view.organizations(query),
    ),
    read("/api/calendar", "Ninety days of windows, over all organizations.", none, calendarSchema, () =>
      view.calendar(),
    ),
    read(
      "/api/windows",
      "One organization's days and windows.",
      windowsQuerySchema,
      windowsSchema,
      async (query) => {
        const windows = await view.windows(query);
        if (windows === undefined) throw new RouteError(404, "There is no such organization.");
        return windows;
      },
    ),
    read(
      "/api/gaps",
      "Events that are missing: lost to the service's retention, refused, or unreadable. Oldest first.",
      gapsQuerySchema,
      gapsSchema,
      (query) => view.gaps(query),
    ),
    read("/api/sinks", "Every sink: position, lag, state, what to do.", none, sinksSchema, () =>
      view.sinks(),
    ),
    read(
      "/api/archives",
      "Every archive: days closed, last checkpoint, last verification, holds.",
      none,
      archivesSchema,
      () => view.archives(),
    ),
    deadLettersRoute(view),
    deadLetterRoute(view),
    read("/api/alarms", "Standing alarms, the critical ones first.", none, alarmsSchema, async () => {
      const { alarms, incomplete: text } = await view.status();
      return { alarms: [...alarms], ...(text === undefined ? {} : { incomplete: text }) };
    }),
    read(
      "/api/drift",
      "Ways in which events differ from what is documented, the most frequent first.",
      z.strictObject({ limit: limit(2000, 200) }),
      driftSchema,
      (query) => view.drift(query.limit),
    ),
    read(
      "/api/recent",
      "The newest events without their contents.",
      z.strictObject({
        after: z.coerce
          .number()
          .int()
          .min(0)
          .default(0)
          .meta({ description: "Only events of pages after this." }),
        limit: limit(200, 50),
      }),
      recentSchema,
      (query) => view.recent(query.after, query.limit),
    ),
  ];
}

const alarmsSchema = z.strictObject({ alarms: z.array(alarmSchema), incomplete });

function read<Query, Response>(
  path: string,
  summary: string,
  query: z.ZodType<Query>,
  response: z.ZodType<Response>,
  answer: (query: Query) => Promise<Response>,
): Route {
  return defineRoute({
    ...{ method: "GET", path, summary, scope: "read", params: none, query, body: undefined, response },
    run: (input: { readonly query: Query }) => answer(input.query),
  });
}

function deadLettersRoute(view: View): Route {
  return defineRoute({
    method: "GET",
    path: "/api/dead-letters",
    summary:
      "Events that a sink refused, newest first and grouped by reason, without their contents. Without a token, values that a destination quoted are left out of the reasons, and its answers are not shown.",
    scope: "read",
    params: none,
    query: deadLettersQuerySchema,
    body: undefined,
    response: deadLettersSchema,
    async run({ query, caller }) {
      const found = await view.deadLetters(query);
      return isTokenHolder(caller) ? found : withoutQuotes(found);
    },
  });
}

/** A destination may quote the event in its answer, and the reason is made from that. */
function withoutQuotes(found: DeadLettersView): DeadLettersView {
  const hidden = <Some extends { readonly reason: string }>(letter: Some) => ({
    ...letter,
    reason: reasonGroupOf(letter.reason),
    answer: null,
  });
  return {
    ...found,
    groups: found.groups.map((group) => ({ ...group, example: hidden(group.example) })),
    letters: found.letters.map(hidden),
  };
}

function deadLetterRoute(view: View): Route {
  return defineRoute({
    method: "GET",
    path: "/api/dead-letters/:id",
    summary: "One dead letter with its event's exact text.",
    scope: "content",
    params: idParams,
    query: none,
    body: undefined,
    response: deadLetterBodySchema,
    async run({ params }) {
      const letter = await view.deadLetter(params.id);
      if (letter === undefined) throw new RouteError(404, `There is no dead letter ${params.id}.`);
      return letter;
    },
  });
}

const sinkParams = z.strictObject({ name: z.string().meta({ description: "The sink's name." }) });
const { ids: _ids, pageMax: _pageMax, ...filters } = ACTIONS.drop.shape;
const waiting = z
  .int()
  .meta({ description: "How many of them were left because their batch is not delivered yet." });

/** Changes; every one needs the token. They are the same actions that the commands carry out. */
export function actionRoutes(actions: Actions): readonly Route[] {
  return [
    change("POST", "/api/dead-letters/replay", {
      summary:
        "Returns dead letters to the journal, each for its own sink: by numbers, sink, reason or group.",
      body: ACTIONS.replay,
      response: z.strictObject({ replayed: z.int(), waiting }),
      async run({ body, signal }) {
        const { count, waiting = 0 } = await actions.replay(someOf(body), signal);
        return { replayed: count, waiting };
      },
    }),
    change("DELETE", "/api/dead-letters", {
      summary: "Deletes dead letters: by numbers, sink, reason or group.",
      query: z.strictObject({
        ...filters,
        ids: z
          .string()
          .regex(/^[1-9]\d{0,14}(,[1-9]\d{0,14}){0,999}$/, { error: "numbers with commas between them" })
          .optional()
          .meta({ description: "By their numbers, with commas between them." }),
      }),
      response: z.strictObject({ dropped: z.int(), waiting }),
      async run({ query: { ids, ...filter }, signal }) {
        const chosen = { ...filter, ...(ids === undefined ? {} : { ids: ids.split(",").map(Number) }) };
        const { count, waiting = 0 } = await actions.drop(someOf(chosen), signal);
        return { dropped: count, waiting };
      },
    }),
    change("POST", "/api/sinks/:name/retry", {
      summary: "Tries a paused, waiting or stopped sink at once.",
      params: sinkParams,
      response: doneSchema,
      run: async ({ params, signal }) => done(await actions.retry({ sink: params.name }, signal)),
    }),
    change("POST", "/api/sinks/:name/resume", {
      summary: "Decides where a sink continues whose position does not match its destination.",
      params: sinkParams,
      body: ACTIONS.resume.omit({ sink: true }),
      response: doneSchema,
      run: async ({ params, body, signal }) =>
        done(await actions.resume({ sink: params.name, from: body.from }, signal)),
    }),
    change("POST", "/api/poll", {
      summary: "Looks for organizations and events at once.",
      query: z.strictObject({
        account: z.string().optional().meta({ description: "Only this account." }),
      }),
      response: doneSchema,
      run: async ({ query, signal }) => done(await actions.poll(query, signal)),
    }),
  ];
}

const doneSchema = z.strictObject({ done: z.literal(true), message: z.string() });

function done({ message }: { readonly message: string }) {
  return { done: true as const, message };
}

/** A change of every dead letter has to be asked for by sink, not by leaving the choice out. */
function someOf<Filter extends object>(filter: Filter): Filter {
  if (Object.values(filter).some((value) => value !== undefined)) return filter;
  throw new RouteError(400, "Name the dead letters by ids, sink, reason or group.");
}

function change<Params, Query, Body, Response>(
  method: Route["method"],
  path: string,
  route: {
    readonly summary: string;
    readonly params?: z.ZodType<Params>;
    readonly query?: z.ZodType<Query>;
    readonly body?: z.ZodType<Body>;
    readonly response: z.ZodType<Response>;
    run(input: RouteInput<Params, Query, Body>): Promise<Response>;
  },
): Route {
  return defineRoute({
    method,
    path,
    scope: "write",
    params: none as unknown as z.ZodType<Params>,
    query: none as unknown as z.ZodType<Query>,
    body: undefined,
    ...route,
  });
}
