import type { Metrics } from "../core/metrics.ts";
import type { Roster } from "../core/roster.ts";

/**
 * Counts events by organization, as long as there are at most `organizationsMax` of them: a label with ten
 * thousand values is more than a time series database should be given.
 */
export function countOrganizations(roster: Roster, metrics: Metrics, organizationsMax: number): Roster {
  const known = new Map<string, number>();
  const total = () => [...known.values()].reduce((sum, count) => sum + count, 0);
  return {
    ...roster,
    async seen(account, organizations, nowMs) {
      await roster.seen(account, organizations, nowMs);
      known.set(account, organizations.length);
    },
    addEvents(account, byOrganization, live) {
      roster.addEvents(account, byOrganization, live);
      if (!known.has(account)) known.set(account, roster.list(account).length);
      if (total() > organizationsMax) return;
      for (const [organization, { events }] of byOrganization) {
        if (organization !== null)
          metrics.add("tidemark_organization_events_total", events, { account, organization });
      }
    },
  };
}
