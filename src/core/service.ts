import type { z } from "zod";
import type { Fields, Meaning } from "./meaning.ts";

/** A service of the directory, as its file gives it: what its events hold and what they mean. */
export interface ServiceDefinition {
  /** The `service` value of its events. */
  readonly name: string;
  /** Other names that the same events or queries go by. */
  readonly aliases?: readonly string[];
  /** The event types that are documented; others are delivered all the same and counted as drift. */
  readonly eventTypes: readonly string[];
  /** Its fields, open to more. An event that does not fit is delivered all the same. */
  readonly event: z.ZodType;
  /** Pure, and never throws, whatever types the fields have. */
  describe(event: Fields): Meaning;
}

export function defineService(definition: ServiceDefinition): ServiceDefinition {
  return definition;
}
