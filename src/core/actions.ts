import { z } from "zod";
import { UsageError } from "./errors.ts";

const deadLetters = z.strictObject({
  ids: z
    .array(z.int().positive())
    .min(1)
    .max(10_000)
    .optional()
    .meta({ description: "Only the dead letters with these numbers." }),
  sink: z.string().min(1).optional().meta({ description: "Only those of this sink." }),
  reason: z.string().min(1).optional().meta({ description: "Only those whose reason contains this text." }),
  group: z.string().min(1).optional().meta({ description: "Only those of this group." }),
  pageMax: z
    .int()
    .min(0)
    .optional()
    .meta({ description: "Only those of journal pages up to this number; later ones are newer refusals." }),
  untilMs: z
    .int()
    .min(0)
    .optional()
    .meta({ description: "Only those that were refused until this time, in milliseconds since 1970." }),
});
const stretch = z.strictObject({
  account: z.string().optional(),
  organizations: z.array(z.string()).optional(),
  services: z.array(z.string()).optional(),
  fromMs: z.number(),
  toMs: z.number(),
  sink: z.string().optional(),
});

/** As 2026-11-15. */
const day = z.string().regex(/^\d{4}-\d\d-\d\d$/);

export const RESUME_FROM = ["destination", "state", "beginning", "now", "behind-damage"] as const;

/** Every change that a person can ask for; the page, the HTTP API and the commands share these. */
export const ACTIONS = {
  /** Dead letters go back into the journal, each for its own sink (R21). */
  replay: deadLetters,
  /** Dead letters are deleted. */
  drop: deadLetters,
  /** A paused, waiting or stopped sink is tried at once. */
  retry: z.strictObject({ sink: z.string() }),
  /** A sink whose position does not match its destination continues from the chosen place (R20). */
  resume: z.strictObject({ sink: z.string(), from: z.enum(RESUME_FROM) }),
  rename: z.strictObject({ from: z.string(), to: z.string() }),
  forget: z.strictObject({ sink: z.string() }),
  backfill: stretch,
  reconcile: stretch,
  /** Organizations and events are looked for at once. */
  poll: z.strictObject({ account: z.string().optional() }),
  /** Changes of an archive that its log has to record. */
  archive: z.strictObject({
    archive: z.string().optional(),
    /** Only in this lane of a cluster. */
    lane: z.int().min(0).optional(),
    operation: z.discriminatedUnion("kind", [
      z.strictObject({
        kind: z.literal("hold"),
        case: z.string().min(1),
        organizations: z.array(z.string()),
        from: day.nullable(),
        to: day.nullable(),
      }),
      z.strictObject({ kind: z.literal("release"), hold: z.string() }),
      z.strictObject({
        kind: z.literal("prune"),
        dryRun: z.boolean(),
        /** Also while no answer of the service confirms this machine's clock. */
        withoutService: z.boolean().optional(),
      }),
      z.strictObject({
        kind: z.literal("erase"),
        organization: z.string().min(1),
        event: z.string().min(1).optional(),
        from: day.nullable(),
        to: day.nullable(),
        reason: z.string().min(1),
      }),
      /** Lists the holds in force. */
      z.strictObject({ kind: z.literal("holds") }),
      /** Opens the archive, which writes a new key of the config into the log. */
      z.strictObject({ kind: z.literal("keys") }),
      /** The result of a comparison with the service, for the log. */
      z.strictObject({
        kind: z.literal("reconcile"),
        from: day,
        to: day,
        askedMs: z.number(),
        days: z.int().min(0),
        organizations: z.int().min(0),
        returned: z.int().min(0),
        held: z.int().min(0),
        erased: z.int().min(0),
        onlyHeld: z.int().min(0),
        missing: z.int().min(0),
      }),
    ]),
  }),
} as const;

export type ActionKind = keyof typeof ACTIONS;
export type ActionBody<Kind extends ActionKind> = z.output<(typeof ACTIONS)[Kind]>;

export interface ActionResult {
  /** A sentence about what was done. */
  readonly message: string;
  /** How many dead letters, windows, sinks or accounts were affected. */
  readonly count: number;
  /** How many dead letters were asked for and left, because their batch is not delivered yet. */
  readonly waiting?: number | undefined;
}

/** A sentence about the dead letters that were replayed or dropped, and about those that were left. */
export function lettersResult(kind: "replay" | "drop", count: number, waiting: number): ActionResult {
  const what = count === 1 ? "1 dead letter was" : `${count} dead letters were`;
  const where = count === 1 ? "its sink" : "their sinks";
  const done = kind === "replay" ? `${what} returned to ${where}.` : `${what} deleted.`;
  if (waiting === 0) return { count, message: done };
  const left = waiting === 1 ? "1 must wait: its batch is" : `${waiting} must wait: their batches are`;
  return { count, waiting, message: `${done} ${left} not delivered yet. Try again afterwards.` };
}

/** Each throws UsageError when the request is wrong, and UnknownNameError when it names something unknown. */
export type Actions = {
  readonly [Kind in ActionKind]: (body: ActionBody<Kind>, signal: AbortSignal) => Promise<ActionResult>;
};

/** There is no sink, account or group of this name; over HTTP it is a 404. */
export class UnknownNameError extends UsageError {}

/** Runs the action of this name with a body that was stored or sent as JSON. */
export async function perform(
  actions: Actions,
  kind: string,
  body: unknown,
  signal: AbortSignal,
): Promise<ActionResult> {
  if (!Object.hasOwn(ACTIONS, kind)) throw new UsageError(`There is no action "${kind}".`);
  const parsed = ACTIONS[kind as ActionKind].parse(body);
  return (actions[kind as ActionKind] as (body: unknown, signal: AbortSignal) => Promise<ActionResult>)(
    parsed,
    signal,
  );
}

/**
 * Whether a request that may have been carried out already can be carried out again without harm: a repeat
 * finds nothing left to do. A second `resume` or `backfill --sink` would deliver events twice.
 */
export function isRepeatable(kind: string, body: unknown): boolean {
  if (kind === "resume" || kind === "route") return false;
  // A second hold has an id of its own. An erasure removes what the first attempt has left.
  if (kind === "archive") return REPEATABLE_OPERATIONS.has(operationOf(body));
  return kind !== "backfill" || (body as { sink?: unknown } | null)?.sink === undefined;
}

const REPEATABLE_OPERATIONS: ReadonlySet<unknown> = new Set(["erase", "prune", "holds", "keys"]);

function operationOf(body: unknown): unknown {
  return (body as { operation?: { kind?: unknown } } | null)?.operation?.kind;
}
