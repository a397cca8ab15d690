import { z } from "zod";
import { RouteError } from "../core/route.ts";
import type { ImportDefinition } from "./config.ts";
import type { StartContext } from "./context.ts";
import type { Job } from "./job.ts";

export interface RoutesContext extends StartContext {
  readonly definitions: readonly ImportDefinition[];
  readonly accounts: readonly string[];
}

export const none = z.strictObject({});
export const idParams = z.strictObject({
  id: z.coerce.number().int().positive().meta({ description: "The job's number." }),
});

export function jobOrRefuse({ store }: RoutesContext, id: number): Job {
  const job = store.job(id);
  if (job === undefined) throw new RouteError(404, `There is no job ${id}.`);
  return job;
}
