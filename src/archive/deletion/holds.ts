import { z } from "zod";
import { type ArchiveState, isOnHold } from "../../core/archive.ts";
import type { Line } from "../part/manifest.ts";

const holdSchema = z.object({
  id: z.string(),
  case: z.string(),
  caseHash: z.string(),
  organizations: z.array(z.string()),
  from: z.string().nullable(),
  to: z.string().nullable(),
  /** The wording, until the hold is in the log. */
  text: z.string().optional(),
});
export type Hold = z.output<typeof holdSchema>;

/** The holds in force. */
export function holdsOf(state: Pick<ArchiveState, "fact">): Hold[] {
  return z.array(holdSchema).parse(JSON.parse(state.fact("holds") ?? "[]"));
}

/** The line's day is inside, or, for additions, its events reach into the time. */
export function touches(line: Line, from: string | null, to: string | null): boolean {
  const [first, last] = reach(line);
  return (from === null || last >= from) && (to === null || first <= to);
}

export function isHeld(line: Line, holds: readonly Hold[]): boolean {
  return isOnHold(holds, line.organization, ...reach(line));
}

function reach(line: Line): [first: string, last: string] {
  return [line.first?.slice(0, 10) ?? line.day, line.last?.slice(0, 10) ?? line.day];
}
