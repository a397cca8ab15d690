import { z } from "zod";
import { type ArchiveState, isOnHold } from "../../core/archive.ts";
import type { PartLeaf } from "../log/leaf.ts";
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

/** Whether a hold reaches into the days of a line's events. An undated one also counts for the day of its arrival. */
export function isHeld(line: Line, kind: PartLeaf["kind"], holds: readonly Hold[]): boolean {
  const { organization, day } = line;
  return (
    isOnHold(holds, organization, ...reach(line)) ||
    (kind === "undated" && isOnHold(holds, organization, day, day))
  );
}

/** The first and the last day of its events; the line's day where they have no time. */
export function reach(line: Line): [first: string, last: string] {
  return [line.first?.slice(0, 10) ?? line.day, line.last?.slice(0, 10) ?? line.day];
}
