import type { z } from "zod";
import type { Fields, Meaning } from "./meaning.ts";

/** A service of the directory: the fields of its events and their meaning. */
export interface ServiceDefinition {
  /** The `service` value of its events. */
  readonly name: string;
  /** Other names for the same service, in events or queries. */
  readonly aliases?: readonly string[];
  /** The documented event types. Others are delivered too, and counted as drift. */
  readonly eventTypes: readonly string[];
  /** Its known fields; more are allowed. An event that does not fit is delivered anyway. */
  readonly event: z.ZodType;
  /** Pure. Never throws, whatever types the fields have. */
  describe(event: Fields): Meaning;
}

export function defineService(definition: ServiceDefinition): ServiceDefinition {
  return definition;
}
