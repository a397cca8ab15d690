import type { JobRequest } from "./job.ts";

/** The fate of a request that starts an import. Only `uncertain` leaves open whether the service took it. */
export type StartAnswer =
  | { readonly kind: "started"; readonly serviceJob: string }
  /** `users`: the content is refused, perhaps because of some of its users. `request`: the call itself is. */
  | {
      readonly kind: "refused";
      readonly about: "users" | "request";
      readonly reason: string;
      /** The users at fault by their place in the request, where the answer names them. */
      readonly users?: readonly { readonly index: number; readonly reason: string }[];
    }
  /** The service certainly did not take it, and the cause may pass. */
  | { readonly kind: "unavailable"; readonly reason: string; readonly retryAfterMs?: number | undefined }
  | { readonly kind: "uncertain"; readonly reason: string };

/** A user that a source offers, in one shape. */
export interface OfferedUser {
  readonly username?: string | undefined;
  readonly email?: string | undefined;
  readonly firstname?: string | undefined;
  readonly lastname?: string | undefined;
  readonly state?: string | undefined;
  readonly attributes: readonly { readonly name: string; readonly value: string }[];
}

/** A user of the organization. */
export interface ExistingUser extends OfferedUser {
  readonly id: string;
}

export interface Offer {
  readonly kind: "application" | "workday";
  /** The id of the application or of the Workday integration. */
  readonly source: string;
  /** The filter of an application's import; the list is limited to it where the service can do so. */
  readonly query?: string | undefined;
}

/** The calls of an account's management API that imports need; `importSourceOf` of the directory part gives them. */
export interface ImportSource {
  /** Every user that the source offers. Rejects when the list cannot be read. */
  offered(organization: string | undefined, offer: Offer, signal: AbortSignal): AsyncIterable<OfferedUser>;
  /**
   * The users that exist; undefined where the service does not list them. With `names` only what tells a user from
   * others is kept. Rejects when there are too many to be kept in memory.
   */
  existing(
    organization: string | undefined,
    signal: AbortSignal,
    fields?: "all" | "names",
  ): Promise<readonly ExistingUser[] | undefined>;
  /** Never rejects. */
  start(
    organization: string | undefined,
    application: string,
    request: JobRequest,
    signal: AbortSignal,
  ): Promise<StartAnswer>;
  /** Posts these users. Never rejects. */
  startWorkday(
    organization: string | undefined,
    workday: string,
    users: readonly OfferedUser[],
    signal: AbortSignal,
  ): Promise<StartAnswer>;
  /** The results so far, each as it came. */
  workdayResults(
    organization: string | undefined,
    workday: string,
    serviceJob: string,
    signal: AbortSignal,
  ): AsyncIterable<Readonly<Record<string, unknown>>>;
  activate(organization: string | undefined, userId: string, signal: AbortSignal): Promise<void>;
}
