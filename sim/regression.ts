import type { Plan } from "./plan.ts";

/** A defect that a life has found, as the smallest life that shows it. It is never removed. */
export interface Regression {
  readonly name: string;
  readonly plan: Plan;
}
