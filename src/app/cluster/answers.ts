import { explain } from "../../core/errors.ts";
import { rangesText } from "../../core/shard.ts";

/** A question about lanes, and the answer, which may be about fewer of them. */
export interface AskedLanes<Found> {
  readonly lanes: readonly number[];
  readonly answer: Promise<Answered<Found>>;
}

export interface Answered<Found> {
  readonly lanes: readonly number[];
  readonly found: Found;
}

interface Failed {
  readonly lanes: readonly number[];
  readonly reason: unknown;
}

/** What came of a question to all lanes. */
export interface Gathered<Found> {
  readonly answers: readonly Answered<Found>[];
  readonly failed: readonly Failed[];
}

/** The machine did not answer in time. */
export class SilentError extends Error {
  override readonly name = "SilentError";
}

export async function gather<Found>(asked: readonly AskedLanes<Found>[]): Promise<Gathered<Found>> {
  const settled = await Promise.allSettled(asked.map(({ answer }) => answer));
  return {
    answers: settled.flatMap((one) => (one.status === "fulfilled" ? [one.value] : [])),
    failed: settled.flatMap((one, at) =>
      one.status === "fulfilled" ? [] : [{ lanes: asked[at]!.lanes, reason: one.reason as unknown }],
    ),
  };
}

/** The lanes of a cluster. */
export function everyLane(count: number): readonly number[] {
  return Array.from({ length: count }, (_, lane) => lane);
}

/**
 * Names those of the wanted lanes of which nothing is in an answer, with the reasons that machines gave. Every list, on the
 * page, in the API and in commands, says it in these words. undefined: the answer is complete.
 */
export function incompleteText(
  { answers, failed }: Gathered<unknown>,
  wanted: readonly number[],
): string | undefined {
  const known = new Set(answers.flatMap(({ lanes }) => lanes));
  const missing = wanted.filter((lane) => !known.has(lane));
  const refused = failed
    .filter(({ reason }) => !(reason instanceof SilentError))
    .map(({ lanes, reason }) => ({ lanes: missing.filter((lane) => lanes.includes(lane)), reason }))
    .filter(({ lanes }) => lanes.length > 0);
  const silent = missing.filter((lane) => !refused.some(({ lanes }) => lanes.includes(lane)));
  const texts = [
    ...(silent.length === 0 ? [] : [`No machine answers for ${missingLanes(silent)}`]),
    ...refused.map(
      ({ lanes, reason }) =>
        `There is no answer for ${missingLanes(lanes)} (${withoutStop(explain(reason))})`,
    ),
  ];
  return texts.length === 0 ? undefined : texts.join(". ");
}

function missingLanes(lanes: readonly number[]): string {
  const [which, whose] = lanes.length === 1 ? ["lane", "its"] : ["lanes", "their"];
  return `${which} ${rangesText(lanes)}: ${whose} organizations are missing in all lists and numbers`;
}

function withoutStop(text: string): string {
  return text.replace(/\.$/, "");
}
