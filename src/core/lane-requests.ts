import { z } from "zod";

/*
 * What machines and commands of a cluster ask of a lane (C3), and the answers. Both are records of one topic. A change is
 * asked of the lane that it concerns and stored in that lane's state before it is carried out; a look is answered at once
 * by the machine that runs the lane, for all of its lanes, and is stored nowhere.
 */

/** Random, after the partition in which the asker waits for the answer. A record that arrives twice has the same. */
const common = { id: z.string().regex(/^\d+:/) };

export const routeCallSchema = z.strictObject({
  method: z.enum(["GET", "POST", "PUT", "DELETE"]),
  path: z.string(),
  params: z.unknown().optional(),
  query: z.unknown().optional(),
  body: z.unknown().optional(),
  caller: z.string(),
});
export type RouteCall = z.output<typeof routeCallSchema>;

/** The lanes that a look is about: the answer is a LanesAnswer. Without it, all lanes of the machine, and the bare value. */
const lanes = z.array(z.int().min(0)).readonly().optional();

/** A lane that the machine does not run is not in the answer. */
export interface LanesAnswer {
  readonly lanes: readonly number[];
  readonly found?: unknown;
}

export const laneRequestSchema = z.discriminatedUnion("kind", [
  /** One of the actions of a person. */
  z.strictObject({ kind: z.literal("action"), ...common, action: z.string(), body: z.unknown().optional() }),
  /** An operation of the HTTP API that changes something. */
  z.strictObject({ kind: z.literal("route"), ...common, call: routeCallSchema }),
  /** A reading operation of the HTTP API. */
  z.strictObject({ kind: z.literal("look_route"), ...common, call: routeCallSchema, lanes }),
  /** A part of the view. */
  z.strictObject({
    kind: z.literal("look"),
    ...common,
    part: z.string(),
    values: z.array(z.unknown()).readonly(),
    lanes,
  }),
]);
export type LaneRequest = z.output<typeof laneRequestSchema>;
type Distribute<Of> = Of extends unknown ? Omit<Of, "id"> : never;
/** A request without its id. */
export type LaneQuestion = Distribute<LaneRequest>;

export function replyPartition(id: string): number {
  return Number.parseInt(id, 10);
}

/**
 * Lenient: the answering machine may have a newer version, with fields and errors that this one does not know. Requests
 * are strict: a part that is not understood could change what is to be done.
 */
export const laneAnswerSchema = z.object({
  /** The id of the request. */
  to: z.string(),
  lane: z.int().min(0),
  ok: z.boolean(),
  message: z.string(),
  /** What the asker throws: usage, or an unknown name, or what an operation of the API answers. */
  error: z.enum(["usage", "unknown_name", "route"]).optional().catch(undefined),
  status: z.int().optional(),
  count: z.number().optional(),
  waiting: z.number().optional(),
  value: z.unknown().optional(),
});
export type LaneAnswer = z.output<typeof laneAnswerSchema>;
/** The outcome of a request, before it is known who asked. */
export type LaneOutcome = Omit<LaneAnswer, "to" | "lane">;
