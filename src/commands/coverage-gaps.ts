import type { GapView } from "../core/view/gaps.ts";
import type { OrganizationView } from "../core/view/organizations.ts";
import type { View } from "../core/view.ts";
import { sayIncomplete } from "./incomplete.ts";
import type { Io } from "./io.ts";

/** So many gaps of all organizations are asked for at once. Where there are more, each organization is asked for alone. */
const GAPS_AT_ONCE = 10_000;
const GAPS_OF_ONE_MAX = 100_000;

export type GapsOf = (organization: OrganizationView) => Promise<readonly GapView[]>;

/** Finds the gaps of one organization, open ones included, that end after a time. */
export async function createGapsOf(
  view: View,
  io: Io,
  fromMs: number | undefined,
  wasIncomplete: boolean,
): Promise<GapsOf> {
  const since = fromMs === undefined ? {} : { fromMs };
  const all = await view.gaps({ ...since, limit: GAPS_AT_ONCE });
  if (!wasIncomplete) sayIncomplete(io, all);
  const { gaps, open, aside } = all.totals;
  if (gaps + open + aside <= all.gaps.length) {
    const byOwner = new Map<string, GapView[]>();
    for (const gap of all.gaps) {
      const key = keyOf(gap.account, gap.organization ?? gap.provider ?? "");
      const known = byOwner.get(key);
      if (known === undefined) byOwner.set(key, [gap]);
      else known.push(gap);
    }
    return async ({ account, id }) => byOwner.get(keyOf(account, id)) ?? [];
  }
  return async ({ account, id }) => {
    const found = await view.gaps({ account, organization: id, ...since, limit: GAPS_OF_ONE_MAX });
    const { totals } = found;
    if (totals.gaps + totals.open + totals.aside > found.gaps.length) sayCut(io, account, id);
    return found.gaps;
  };
}

function sayCut(io: Io, account: string, id: string): void {
  io.stderr.write(
    `This is not complete: ${account}/${id} has more than ${GAPS_OF_ONE_MAX} gaps, and only the oldest are shown. Choose later days with --since.\n`,
  );
  io.setExitCode(1);
}

function keyOf(account: string, owner: string): string {
  return JSON.stringify([account, owner.toLowerCase()]);
}
