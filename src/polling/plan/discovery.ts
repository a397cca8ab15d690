import { NOT_IN_CONFIG, NOT_LISTED, type RosterEntry } from "../../core/roster.ts";
import { DAY_MS } from "../../core/time.ts";
import { ask, type PollContext, timeText } from "../context.ts";
import { LIVE } from "../limits/pace.ts";
import { faultIn, probe } from "../read/probe.ts";
import { REFUSED_RETRY_MS, raiseRefused } from "../read/refused.ts";
import type { SourceFault } from "../read/source.ts";
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
const HOUR_MS = 3_600_000;
/** The first request of all is tried so often: one bad answer must not end `run --once`. */
const ATTEMPTS_MAX = 5;
const AGAIN_MS = 500;
const MAY_PASS: readonly SourceFault["kind"][] = ["throttled", "unavailable", "cut_off", "nonsense"];
/** So many refused organizations are tried again in one turn of a process that goes on. */
export const RETRIES_MAX = 20;

/**
 * The organizations that the account reads. The list is asked for at start and on a schedule: new organizations join by
 * themselves, vanished ones are set aside, refused ones are tried again.
 */
export function createDiscovery(context: PollContext, options: DiscoveryOptions) {
  const { account, roster, clock, serviceClock, alarms, log, settings } = context;
  let discoveredMs = Number.NEGATIVE_INFINITY;
  let hasOrganizations = true;
  /** When a person last asked for a look: organizations that were refused before are tried again. */
  let askedMs = Number.NEGATIVE_INFINITY;

  async function scope(signal: AbortSignal): Promise<AccountScope> {
    if (Math.abs(clock.now() - discoveredMs) >= options.discoveryMs - SLACK_MS) {
      await look(signal);
      raiseStanding();
    }
    await learnTime(known(), ATTEMPTS_MAX, signal);
    return known();
  }

  /** The alarms of a process end with it, and a refusal that lasts is found again only an hour later. */
  function raiseStanding(): void {
    for (const { id, state, reason } of roster.list(account))
      if (state === "refused") raiseRefused(context, `${account}/${id}`, reason ?? "The service refuses it.");
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
    /** Refused organizations are tried again now, not at their time: the reason may be gone. */
    hurryRefused(): void {
      askedMs = clock.now();
    },
    /** Tries refused organizations again whose time has come; true when one is back. */
    async retryRefused(signal: AbortSignal, retriesMax: number): Promise<boolean> {
      const due = roster
        .list(account)
        .filter((entry) => entry.state === "refused" && isDue(entry))
        .toSorted((a, b) => (a.nextMs ?? 0) - (b.nextMs ?? 0));
      let isBack = false;
      for (const entry of due.slice(0, retriesMax)) isBack = (await retry(entry, signal)) || isBack;
      return isBack;
    },
  };

  /** A longer wait is never set: the local clock was set back meanwhile. */
  function isDue({ nextMs }: RosterEntry): boolean {
    const leftMs = (nextMs ?? 0) - clock.now();
    // The clock was set back since then.
    if (askedMs > clock.now()) askedMs = Number.NEGATIVE_INFINITY;
    return leftMs <= 0 || leftMs > REFUSED_RETRY_MS || clock.now() + leftMs - REFUSED_RETRY_MS < askedMs;
  }

  async function retry({ id }: RosterEntry, signal: AbortSignal): Promise<boolean> {
    const services = settings.services;
    const stream = { id: 0, account, provider: null, organizations: [id], services };
    const nowMs = serviceClock.now();
    const fault = await probe(context, { stream, fromMs: nowMs - HOUR_MS, toMs: nowMs }, [id], signal);
    if (fault === undefined) {
      await roster.setState(account, [id], "active", null, null);
      alarms.clear("organization_refused", `${account}/${id}`);
      return true;
    }
    await roster.setState(account, [id], "refused", fault.message, clock.now() + REFUSED_RETRY_MS);
    raiseRefused(context, `${account}/${id}`, fault.message);
    return false;
  }
}

export type Discovery = ReturnType<typeof createDiscovery>;
