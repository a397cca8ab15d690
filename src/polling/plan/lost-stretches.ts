import type { NewGap } from "../../core/gap.ts";
import type { StreamCoverage } from "../../core/journal.ts";
import { type NewWindow, newWindow, type Stream } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import { missingStretches, ownersOf, type TimeStretch } from "./sweep-times.ts";

const OUTAGE = "nothing was read for longer than the service keeps events";

/**
 * Asks once for what other accounts have read and compared before this time. An account that gets its former name
 * back has lost nothing that was read under the other one.
 */
export function createReadByOthers({ journal, account }: PollContext, beforeMs: number) {
  let found: Promise<readonly StreamCoverage[]> | undefined;
  return async (provider: string | null): Promise<readonly StreamCoverage[]> => {
    found ??= journal.sealedElsewhere(account, beforeMs);
    // A key's own organization has no name: it may be another one.
    return (await found).filter(
      ({ stream }) => stream.provider === provider && (provider !== null || stream.organizations.length > 0),
    );
  };
}

/** Gaps, and windows that say so in the ledger, for time that the service has forgotten and that none of `others` covers. */
export async function lossesOf(
  { journal }: Pick<PollContext, "journal">,
  stream: Stream,
  lost: TimeStretch,
  others: readonly StreamCoverage[],
): Promise<{ readonly add: NewWindow[]; readonly gaps: NewGap[] }> {
  const add: NewWindow[] = [];
  const gaps: NewGap[] = [];
  const { account, provider } = stream;
  for (const missing of missingStretches(ownersOf(stream), stream.services, () => lost, others)) {
    const organizations = missing.organizations.filter((id) => id !== "");
    const losing = await journal.stream({ account, provider, organizations, services: missing.services });
    for (const { fromMs, toMs } of missing.stretches) {
      add.push(newWindow(losing, fromMs, toMs, { state: "expired", reason: OUTAGE }));
      gaps.push({ stream: losing, fromMs, toMs, reason: "expired", detail: OUTAGE, events: null });
    }
  }
  return { add, gaps };
}
