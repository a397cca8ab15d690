import type { JobRequest } from "./job.ts";

/** What became of a start. Only `uncertain` leaves open whether the service took it. */
export type StartAnswer =
  | { readonly kind: "started"; readonly serviceJob: string }
  | { readonly kind: "refused"; readonly reason: string }
  | { readonly kind: "uncertain"; readonly reason: string };

/** What imports need of an account's management API; `importSourceOf` of the directory part gives it. Neither start ever rejects. */
export interface ImportSource {
  start(
    organization: string | undefined,
    application: string,
    request: JobRequest,
    signal: AbortSignal,
  ): Promise<StartAnswer>;
  /** Imports every worker that the integration offers. */
  startWorkday(organization: string | undefined, workday: string, signal: AbortSignal): Promise<StartAnswer>;
  /** The results so far, each as it came. */
  workdayResults(
    organization: string | undefined,
    workday: string,
    serviceJob: string,
    signal: AbortSignal,
  ): Promise<readonly Readonly<Record<string, unknown>>[]>;
}
