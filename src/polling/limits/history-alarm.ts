import { DAY_MS, formatDuration } from "../../core/time.ts";
import type { PollContext } from "../context.ts";
import { horizonMs } from "../read/forgotten.ts";

export const LIMITED = "the plan keeps less history";
/** The key's own organization has no id. */
const OWN = "";

/** Whether a window is refused, or a gap was found, for this reason. */
export function isHistoryLimit(reason: string | null): boolean {
  return reason?.startsWith(LIMITED) ?? false;
}

/** The organizations of a stream, or of a gap, by which plans are remembered. */
export function plansOf({ organizations }: { readonly organizations: readonly string[] }): readonly string[] {
  return organizations.length === 0 ? [OWN] : organizations.map((id) => id.toLowerCase());
}

/**
 * With a longer retention the last comparison of a window comes when the plan no longer serves it. The alarm is raised
 * from the ledger, so that a restart does not forget it. It ends when no time that the config calls held is missing
 * because of a plan: the plans or the config were changed. How much a plan keeps was learned since the start; the ledger
 * only tells what it did not keep.
 */
export async function warnOfHistoryLimit(context: PollContext): Promise<void> {
  const { account, alarms, journal, learned, settings } = context;
  const fromMs = horizonMs(context);
  const gaps = await journal.gaps({ account, reasons: ["refused", "unchecked"], fromMs });
  // Gaps leave out what is read again for one sink.
  const refused = await journal.windows({ account, states: ["refused"], live: false, fromMs });
  const limited = new Set([
    ...gaps.filter(({ detail }) => isHistoryLimit(detail)).map(({ organization }) => organization ?? OWN),
    ...refused.filter(({ reason }) => isHistoryLimit(reason)).flatMap(({ stream }) => plansOf(stream)),
  ]);
  if (limited.size === 0) {
    alarms.clear("history_limited", account);
    return;
  }
  const days = [...limited].map((id) => daysOf(learned.plansKeepMs.get(id)));
  alarms.raise({
    kind: "history_limited",
    subject: account,
    message: `${plansText([...limited], days)} The config says that the service keeps ${formatDuration(settings.retentionMs)}. What is older than the plan allows is not read, and what was read of it is not compared again.`,
    remedy: `${remedyOf(context, limited.size, days)} \`tidemark coverage\` lists the gaps.`,
    severity: "warning",
  });
}

function daysOf(keptMs: number | undefined): number | undefined {
  return keptMs === undefined ? undefined : Math.max(1, Math.round(keptMs / DAY_MS));
}

function plansText(ids: readonly string[], days: readonly (number | undefined)[]): string {
  const plans =
    ids.length === 1
      ? `The plan${ids[0] === OWN ? "" : ` of ${ids[0]}`} serves`
      : `The plans of ${ids.length.toLocaleString("en")} organizations serve`;
  const known = days.filter((each) => each !== undefined);
  // Those that were not asked since the start are asked again within a day.
  if (known.length < days.length) return `${plans} only a part of the history.`;
  const [least, most] = [Math.min(...known), Math.max(...known)];
  if (least === most) return `${plans} only about the last ${least === 1 ? "day" : `${least} days`}.`;
  return `${plans} only between about the last ${least === 1 ? "day" : `${least} days`} and the last ${most} days.`;
}

/** One retention counts for all organizations of an account. */
function remedyOf(
  { account, roster }: PollContext,
  limited: number,
  days: readonly (number | undefined)[],
): string {
  const others = roster.list(account).filter(({ state }) => state === "active").length - limited;
  const [kept] = days;
  const isOne = others <= 0 && kept !== undefined && days.every((each) => each === kept);
  if (isOne)
    return `Set the account's "retention" to what the plan keeps (about ${kept}d), and "since" to no more: then every window is compared before the service forgets it.`;
  return `Where all organizations of an account have the same plan, set the account's "retention" to what it keeps, and "since" to no more: then every window is compared before the service forgets it. Organizations with another plan need an account of their own in the config for that; a "retention" that is too short for one of them gives up time that its plan serves.`;
}
