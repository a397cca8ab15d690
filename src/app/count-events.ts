import { type CountEvents, NoCountsError } from "../archive/close/count-days.ts";
import type { AccountConfig } from "../config/schema.ts";
import type { Clock } from "../core/clock.ts";
import { DAY_MS } from "../core/time.ts";
import { DirectoryError } from "../directory/errors.ts";
import type { InsightsClient, InsightsScope } from "../directory/insights.ts";
import type { AskTime } from "./archive-clock.ts";

export interface CountingAccount {
  readonly name: string;
  readonly config: AccountConfig;
  readonly insights: Pick<InsightsClient, "count" | "events">;
}

/** The service said no to all: throttled, away, or the key is refused. Others concern one organization. */
const GENERAL = new Set(["throttled", "unavailable", "cut_off", "unauthorized", "nonsense"]);

/** Count queries for an archive, with the accounts that read the organization and the services that it asked for. */
export function countEventsWith(accounts: readonly CountingAccount[], clock: Clock): CountEvents {
  return async ({ organization, accounts: names, services }, day, signal) => {
    const account = accounts.find(({ name }) => names.includes(name));
    if (account === undefined || services == null) return undefined;
    // What the service has begun to forget cannot be compared.
    if (Date.parse(day) < clock.now() - account.config.retention + DAY_MS) return undefined;
    const query = {
      service: services,
      startTime: `${day}T00:00:00Z`,
      // Whether `end_time` is inclusive is not specified: the last nanosecond of the day is right in both cases.
      endTime: `${day}T23:59:59.999999999Z`,
    };
    try {
      return await account.insights.count(query, ownerScope(account.config, organization), signal);
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof DirectoryError)) throw error;
      if (GENERAL.has(error.kind)) throw new NoCountsError(error.message, { cause: error });
      return undefined;
    }
  };
}

/** The service's time, by the Date of any answer: a refusal has one too. */
export function askTimeWith(accounts: readonly CountingAccount[], clock: Clock): AskTime {
  return async (signal) => {
    for (const { config, insights } of accounts) {
      const dateMs = await insights
        .events(
          {
            service: config.services,
            startTime: new Date(clock.now() - DAY_MS).toISOString(),
            limit: 1,
            sort: "ASC",
          },
          {},
          { signal },
        )
        .then(
          (page) => {
            page.discard();
            return page.head.dateMs;
          },
          (error: unknown) => {
            signal.throwIfAborted();
            if (!(error instanceof DirectoryError)) throw error;
            return error.dateMs;
          },
        );
      if (dateMs !== undefined) return dateMs;
    }
    return undefined;
  };
}

/** Owners in the archive are an organization's id, `provider:` and an id, or `account:` and a name. */
export function ownerScope(
  account: Pick<AccountConfig, "organizations">,
  organization: string,
): InsightsScope {
  if (organization.startsWith("provider:")) return { provider: organization.slice("provider:".length) };
  // A key of a single tenant is asked without naming its organization.
  if (account.organizations === undefined) return {};
  return { organizations: [organization] };
}
