import { z } from "zod";
import { defineRoute, type Route, RouteError } from "../core/route.ts";
import {
  type Actions,
  alarmSchema,
  calendarSchema,
  deadLetterBodySchema,
  deadLettersQuerySchema,
  deadLettersSchema,
  driftSchema,
  organizationsQuerySchema,
  organizationsSchema,
  ratesSchema,
  recentSchema,
  sinkSchema,
  statusSchema,
  type View,
  windowsQuerySchema,
  windowsSchema,
} from "../core/view.ts";

const none = z.strictObject({});
const idParams = z.strictObject({
  id: z.coerce.number().int().positive().meta({ description: "The dead letter's number." }),
});
const limit = (most: number, usual: number) =>
  z.coerce.number().int().min(1).max(most).default(usual).meta({ description: "How many at the most." });

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
    read("/api/sinks", "Every sink: position, lag, state, what to do.", none, sinksSchema, async () => ({
      sinks: [...(await view.sinks())],
    })),
    read(
      "/api/dead-letters",
      "Events that a sink refused for good, newest first, without their contents.",
      deadLettersQuerySchema,
      deadLettersSchema,
      (query) => view.deadLetters(query),
    ),
    deadLetterRoute(view),
    read("/api/alarms", "Standing alarms, the critical ones first.", none, alarmsSchema, async () => ({
      alarms: [...(await view.status()).alarms],
    })),
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

const sinksSchema = z.strictObject({ sinks: z.array(sinkSchema) });
const alarmsSchema = z.strictObject({ alarms: z.array(alarmSchema) });

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

function deadLetterRoute(view: View): Route {
  return defineRoute({
    method: "GET",
    path: "/api/dead-letters/:id",
    summary: "One dead letter with its event's exact text.",
    scope: "read",
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

const ids = z.array(z.int().positive()).min(1).max(10_000).meta({ description: "By their numbers." });
const sink = z.string().min(1).meta({ description: "All of this sink." });
const choice = z.union([z.strictObject({ ids }), z.strictObject({ sink })]);

/** Changes; every one needs the token. */
export function actionRoutes(actions: Actions): readonly Route[] {
  return [
    defineRoute({
      method: "POST",
      path: "/api/dead-letters/replay",
      summary: "Puts dead letters back into the journal, each for its sink alone.",
      scope: "write",
      params: none,
      query: none,
      body: choice,
      response: z.strictObject({ replayed: z.int() }),
      run: async ({ body }) => ({ replayed: await actions.replayDeadLetters(body) }),
    }),
    defineRoute({
      method: "DELETE",
      path: "/api/dead-letters",
      summary: "Forgets dead letters for good.",
      scope: "write",
      params: none,
      query: z.strictObject({
        ids: z
          .string()
          .regex(/^\d{1,15}(,\d{1,15}){0,999}$/, { error: "numbers with commas between them" })
          .optional()
          .meta({ description: "By their numbers, with commas between them." }),
        sink: sink.optional(),
      }),
      body: undefined,
      response: z.strictObject({ dropped: z.int() }),
      async run({ query }) {
        if ((query.ids === undefined) === (query.sink === undefined))
          throw new RouteError(400, "Give either ids or sink.");
        const chosen =
          query.sink === undefined ? { ids: query.ids!.split(",").map(Number) } : { sink: query.sink };
        return { dropped: await actions.dropDeadLetters(chosen) };
      },
    }),
    defineRoute({
      method: "POST",
      path: "/api/sinks/:name/resume",
      summary: "Tries a paused or waiting sink at once.",
      scope: "write",
      params: z.strictObject({ name: z.string().meta({ description: "The sink's name." }) }),
      query: none,
      body: undefined,
      response: done,
      async run({ params }) {
        if (!(await actions.resumeSink(params.name)))
          throw new RouteError(404, `There is no sink named ${JSON.stringify(params.name)}.`);
        return { done: true as const };
      },
    }),
    defineRoute({
      method: "POST",
      path: "/api/poll",
      summary: "Looks for organizations and events at once.",
      scope: "write",
      params: none,
      query: z.strictObject({
        account: z.string().optional().meta({ description: "Only this account." }),
      }),
      body: undefined,
      response: done,
      async run({ query }) {
        if (!(await actions.pollNow(query.account)))
          throw new RouteError(404, `There is no account named ${JSON.stringify(query.account)}.`);
        return { done: true as const };
      },
    }),
  ];
}

const done = z.strictObject({ done: z.literal(true) });
