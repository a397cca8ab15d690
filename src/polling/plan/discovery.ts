import { NOT_IN_CONFIG, NOT_LISTED, type RosterEntry } from "../../core/roster.ts";
import { DAY_MS } from "../../core/time.ts";
import { ask, type PollContext, timeText } from "../context.ts";
import { LIVE } from "../limits/pace.ts";
import { faultIn, MAY_PASS } from "../read/probe.ts";
import { createRefusedRetries } from "./refused-retries.ts";
import type { AccountScope } from "./scope.ts";

export interface DiscoveryOptions {
  /** The organizations that exist now; null: the key's own. */
  discover(signal: AbortSignal): Promise<readonly FoundOrganization[] | null>;
  /** The config names the organizations, so one that is not found was taken out of it. */
  readonly isFromConfig: boolean;
  readonly provider: string | null;
  readonly discoveryMs: number;
}

export interface FoundOrganization {
  readonly id: string;
  readonly name: string;
  /** The service lists it, and the config leaves it out. */
  readonly isLeftOut?: boolean;
}

/** A plan that comes a little early asks for the list all the same, or new organizations wait twice as long. */
const SLACK_MS = 5000;
/** The first request of all is tried so often: one bad answer must not end `run --once`. */
const ATTEMPTS_MAX = 5;
const AGAIN_MS = 500;

/**
 * The organizations that the account reads. The list is asked for at start and on a schedule: new organizations join by
 * themselves, vanished ones are set aside, refused ones are tried again.
 */
export function createDiscovery(context: PollContext, options: DiscoveryOptions) {
  const { account, roster, clock, serviceClock, alarms, log, settings } = context;
  const refused = createRefusedRetries(context);
  let discoveredMs = Number.NEGATIVE_INFINITY;
  let hasOrganizations = true;

  async function scope(signal: AbortSignal): Promise<AccountScope> {
    if (Math.abs(clock.now() - discoveredMs) >= options.discoveryMs - SLACK_MS) {
      await look(signal);
      refused.raiseStanding();
    }
    await learnTime(known(), ATTEMPTS_MAX, signal);
    return known();
  }

  function known(): AccountScope {
    return { organizations: hasOrganizations ? roster.list(account) : null, provider: options.provider };
  }

  /** Known organizations are read even where the list is not available now. */
  async function look(signal: AbortSignal): Promise<void> {
    try {
      const startedMs = clock.now();
      const found = await options.discover(signal);
      discoveredMs = startedMs;
      hasOrganizations = found !== null;
      await compare(found ?? []);
      alarms.clear("discovery_failed", account);
    } catch (error) {
      if (signal.aborted) throw error;
      const fault = faultIn(context, error);
      const isAlone = roster.list(account).length === 0 && options.provider === null;
      if (fault.kind === "bug" || fault.kind === "unauthorized" || isAlone) throw error;
      alarms.raise({
        kind: "discovery_failed",
        subject: account,
        message: `The list of organizations cannot be used: ${fault.message}`,
        remedy:
          "Known organizations are still read, and new ones join when the list is right again. If this persists, check which organizations the API key may see.",
        severity: "warning",
      });
    }
  }

  async function compare(all: readonly FoundOrganization[]): Promise<void> {
    const found = all.filter(({ isLeftOut }) => isLeftOut !== true);
    const leftOut = new Set(all.filter(({ isLeftOut }) => isLeftOut).map(({ id }) => id.toLowerCase()));
    const isOut = (id: string) => options.isFromConfig || !hasOrganizations || leftOut.has(id);
    const known = new Map(roster.list(account).map((entry) => [entry.id, entry]));
    await roster.seen(account, found, clock.now());
    const ids = new Set(found.map(({ id }) => id.toLowerCase()));
    const vanished = [...known.values()].filter((entry) => !ids.has(entry.id) && entry.state !== "vanished");
    await setVanished(
      vanished.filter(({ id }) => isOut(id)),
      NOT_IN_CONFIG,
    );
    await setVanished(
      vanished.filter(({ id }) => !isOut(id)),
      NOT_LISTED,
    );
    const joined = [...ids].filter((id) => !known.has(id)).length;
    if (joined > 0) log.info({ count: joined }, "Organizations joined.");
  }

  async function setVanished(entries: readonly RosterEntry[], reason: string): Promise<void> {
    const ids = entries.map(({ id }) => id);
    if (ids.length === 0) return;
    await roster.setState(account, ids, "vanished", reason, null);
    for (const id of ids) alarms.clear("organization_refused", `${account}/${id}`);
    const more = { organizations: ids.slice(0, 20), count: ids.length };
    if (reason === NOT_IN_CONFIG) log.info(more, "Organizations are not in the config any more.");
    else log.warn(more, "Organizations are gone from the list.");
  }

  /** The service's time is known before anything is done by it; a wrong local clock shows in an error's Date too. */
  async function learnTime(
    { organizations, provider }: AccountScope,
    attemptsMax: number,
    signal: AbortSignal,
  ): Promise<void> {
    if (serviceClock.isFresh) return;
    const first = organizations?.find((entry) => entry.state === "active");
    if (organizations !== null && first === undefined && provider === null) return;
    const whom =
      first === undefined ? (provider === null ? {} : { provider }) : { organizations: [first.id] };
    const query = {
      service: settings.services,
      startTime: timeText(clock.now() - DAY_MS),
      limit: 1,
      sort: "ASC" as const,
    };
    for (let attempt = 1; ; attempt++)
      try {
        return (await ask(context, query, whom, { signal }, LIVE)).discard();
      } catch (error) {
        if (signal.aborted) throw error;
        if (serviceClock.isFresh) return;
        if (attempt >= attemptsMax || !MAY_PASS.includes(faultIn(context, error).kind)) throw error;
        await clock.sleep(AGAIN_MS * 2 ** (attempt - 1), signal);
      }
  }

  return {
    scope,
    /** Asks for the service's time where the last answer is long ago. */
    async refreshTime(signal: AbortSignal): Promise<void> {
      if (!serviceClock.isFresh) await learnTime(known(), 1, signal);
    },
    /** The list is asked for again with the next plan. */
    expire(): void {
      discoveredMs = Number.NEGATIVE_INFINITY;
    },
    refused,
  };
}

export type Discovery = ReturnType<typeof createDiscovery>;
