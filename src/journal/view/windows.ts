import { byOwner } from "../../core/by-owner.ts";
import type { WindowsQuery, WindowsView, WindowView } from "../../core/view/windows.ts";
import type { OwnerCounts, WindowState } from "../../core/window.ts";
import type { State } from "../database.ts";
import { createDays, worstStates } from "./days.ts";
import type { createLedgerView } from "./ledger.ts";
import { type Overlaps, rowKey } from "./overlaps.ts";
import type { WindowDays } from "./window-days.ts";

interface Row extends Omit<WindowView, "state" | "services" | "groupSize"> {
  readonly counts: string | null;
  readonly stream: number;
  readonly live: number;
  readonly state: WindowState;
}

/** One organization's windows, whichever queries they were read by; undefined when nothing is known of it. */
export function windowsOf(
  db: State,
  streams: ReturnType<typeof createLedgerView>["streams"],
  { account, organization, limit }: WindowsQuery,
  nowMs: number,
  overlaps: Overlaps,
  daysOf: WindowDays,
): WindowsView | undefined {
  const owner = organization.toLowerCase();
  const ids = [...new Set([...streams.of(account, owner), ...streams.of(account, organization)])];
  const name = db
    .prepare("SELECT name FROM organizations WHERE account = ? AND id = ?")
    .pluck()
    .get(account, owner) as string | undefined;
  if (ids.length === 0 && name === undefined) return undefined;
  const rows = db
    .prepare(
      `SELECT id, stream, from_ms AS fromMs, to_ms AS toMs, live, state, asked_ms AS askedMs, next_ms AS nextMs,
         api_count AS apiCount, held_count AS heldCount, counts, late, repeated, changed, reason, reader
       FROM windows WHERE stream IN (SELECT value FROM json_each(?)) ORDER BY to_ms DESC, id DESC`,
    )
    .all(JSON.stringify(ids)) as Row[];
  const windows = rows.map(({ stream, live, state, counts, ...rest }): WindowView => {
    const { services, organizations } = streams.get(stream)!;
    const isGroup = organizations.length > 1;
    return {
      ...rest,
      ...(isGroup && countsOf(counts, owner)),
      // Counted for the group alone.
      ...(isGroup && rest.late !== 0 && { late: null }),
      state: live === 1 ? "live" : state,
      services: [...services],
      groupSize: organizations.length || 1,
    };
  });
  const days = createDays(nowMs);
  const excess = [...new Set([owner, organization])].flatMap(
    (id) => overlaps.byRow.get(rowKey(account, id)) ?? [],
  );
  for (const [at, window] of windows.entries()) {
    if (window.reader !== null) continue;
    const { stream, counts } = rows[at]!;
    const query = streams.get(stream)!;
    const owners = query.organizations.length > 0 ? [owner] : ownersIn(counts);
    for (const part of daysOf(window, query, owners, excess)) days.addCounts(part);
  }
  for (const stretch of worstStates(windows.filter(({ reader }) => reader === null)))
    days.addState(stretch, 1);
  for (const one of excess) days.lessen(one);
  return {
    account,
    organization,
    name: name ?? (organization === "" ? "The key's own organization" : "The provider's portal"),
    days: days.list(),
    total: windows.length,
    windows: windows.slice(0, limit),
  };
}

/** A query without organizations is counted for the owners of its events. */
function ownersIn(text: string | null): string[] {
  return text === null ? [] : Object.keys(JSON.parse(text) as OwnerCounts);
}

/** One organization's part of a group's counts; unknown where the group was counted as a whole only. */
function countsOf(text: string | null, owner: string): Pick<WindowView, "apiCount" | "heldCount"> {
  if (text === null) return { apiCount: null, heldCount: null };
  const [apiCount, heldCount] = byOwner(JSON.parse(text) as OwnerCounts)[owner] ?? [0, 0];
  return { apiCount, heldCount };
}
