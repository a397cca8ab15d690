import { z } from "zod";

/** Milliseconds since the epoch, or a duration in milliseconds. */
export const ms = z.number();
export const count = z.int().min(0);
/** Of answers that are made from several lanes. */
export const incomplete = z.string().optional().meta({
  description:
    "In a cluster: names the lanes of which nothing is in this answer, because no machine answers for them.",
});
export interface MayBeIncomplete {
  readonly incomplete?: string | undefined;
}
