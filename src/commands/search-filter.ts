import { closestOf } from "../config/suggest.ts";
import { UsageError } from "../core/errors.ts";
import { type Filter, SEARCH_OUTCOMES } from "../search/find/filter.ts";
import type { ArchiveFlags } from "./archive-store.ts";
import type { Output } from "./search-output.ts";

export interface SearchFlags extends ArchiveFlags {
  readonly user?: string[];
  readonly ip?: string[];
  readonly eventType?: string[];
  readonly service?: string[];
  readonly organization?: string[];
  readonly outcome?: string[];
  readonly application?: string[];
  readonly device?: string[];
  readonly correlation?: string[];
  readonly id?: string[];
  readonly text?: string;
  readonly since?: number;
  readonly until?: number;
  readonly story?: string;
  readonly output: Output;
  readonly count?: boolean;
  readonly by?: string;
  readonly limit?: number;
  readonly newestFirst?: boolean;
  readonly scanMax: number;
}

export function searchFilter(flags: SearchFlags): Filter {
  const wrong = flags.outcome?.find((one) => !SEARCH_OUTCOMES.includes(one));
  if (wrong !== undefined) {
    const near = closestOf(wrong, SEARCH_OUTCOMES);
    throw new UsageError(
      `--outcome ${wrong}: use one of ${SEARCH_OUTCOMES.join(", ")}${near === undefined ? "" : `; did you mean ${near}?`}`,
    );
  }
  if (flags.text === "") throw new UsageError("--text needs at least one character.");
  if (flags.since !== undefined && flags.until !== undefined && flags.since >= flags.until)
    throw new UsageError("--since must be before --until.");
  return {
    users: flags.user,
    ips: flags.ip,
    eventTypes: flags.eventType,
    services: flags.service,
    organizations: flags.organization,
    outcomes: flags.outcome,
    applications: flags.application,
    devices: flags.device,
    correlations: flags.correlation,
    ids: flags.id,
    text: flags.text,
    anyone: flags.story === undefined ? undefined : [flags.story],
    fromNs: nsOf(flags.since),
    toNs: nsOf(flags.until),
  };
}

function nsOf(ms: number | undefined): bigint | undefined {
  return ms === undefined ? undefined : BigInt(ms) * 1_000_000n;
}
