import type { Simulator } from "../../index.ts";

/** One statement of the specification and what shows that the simulator keeps it. */
export interface Rule {
  /** The specification's part. */
  readonly part: string;
  readonly rule: string;
  /** The simulator's decision where the specification is silent. */
  readonly choice?: string;
  readonly check: (simulator: Simulator) => Promise<void>;
}
