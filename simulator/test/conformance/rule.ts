import type { Simulator } from "../../index.ts";

/** One statement of the specification and what shows that the simulator keeps it. */
export interface Rule {
  /** The specification's part. */
  readonly part: string;
  readonly rule: string;
  /** What the specification leaves open and the simulator decides. */
  readonly choice?: string;
  readonly check: (simulator: Simulator) => Promise<void>;
}
