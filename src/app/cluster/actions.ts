import { ACTIONS, type ActionKind, type ActionResult, type Actions } from "../../core/actions.ts";
import { UsageError } from "../../core/errors.ts";
import { numberInLane } from "./merge-lists.ts";

export interface LaneActions {
  readonly lane: number;
  readonly actions: Actions;
}

type AnyAction = (body: unknown, signal: AbortSignal) => Promise<ActionResult>;

/**
 * Carries an action out in every lane of this machine. It succeeds where one lane could do it: a lane that has no
 * such dead letter or organization refuses, and another has it.
 */
export function createMachineActions(lanes: () => readonly LaneActions[]): Actions {
  const act =
    (kind: ActionKind): AnyAction =>
    async (body, signal) => {
      const results: ActionResult[] = [];
      const errors: unknown[] = [];
      for (const { lane, actions } of lanes()) {
        const own = bodyOf(lane, body as { ids?: readonly number[] });
        if (own === undefined) continue;
        try {
          results.push(await (actions[kind] as AnyAction)(own, signal));
        } catch (error) {
          if (signal.aborted) throw error;
          errors.push(error);
        }
      }
      if (results.length === 0) throw errors[0] ?? new UsageError("No lane runs on this machine just now.");
      return mergeResults(results);
    };
  return Object.fromEntries(
    (Object.keys(ACTIONS) as ActionKind[]).map((kind) => [kind, act(kind)]),
  ) as unknown as Actions;
}

/** Dead letters have numbers among all lanes; undefined: none of those that are named is in this lane. */
function bodyOf(lane: number, body: { readonly ids?: readonly number[] | undefined }): unknown {
  if (body.ids === undefined) return body;
  const ids = body.ids.map(numberInLane).filter((one) => one.lane === lane);
  return ids.length === 0 ? undefined : { ...body, ids: ids.map(({ id }) => id) };
}

function mergeResults(results: readonly ActionResult[]): ActionResult {
  const count = results.reduce((sum, one) => sum + one.count, 0);
  const said = results.find((one) => one.count > 0) ?? results[0]!;
  const message =
    results.length === 1
      ? said.message
      : `${said.message} (In ${results.length} lanes of this machine; ${count} altogether.)`;
  return { count, message };
}
