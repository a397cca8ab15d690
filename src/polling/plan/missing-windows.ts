import type { NewGap } from "../../core/gap.ts";
import { isSetAside, type RosterEntry } from "../../core/roster.ts";
import { DAY_MS } from "../../core/time.ts";
import { type NewWindow, newWindow, type Window, type WindowChange } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import { HORIZON_MARGIN_MS, warnOfGaps } from "../read/forgotten.ts";
import { groupsFor } from "./groups.ts";
import { createReadByOthers, lossesOf } from "./lost-stretches.ts";
import { type AccountScope, activeOf } from "./scope.ts";
import {
  type Missing,
  missingStretches,
  ownersOf,
  type TimeStretch,
  type Wanted,
  windowsFor,
} from "./sweep-times.ts";

/** An organization that appears later than this after a restored copy is a new one. */
const NEW_AFTER_RESTORE_MS = 7 * DAY_MS;

/** A stretch of the past to be read once more or at all. */
export interface HistoryRequest {
  readonly fromMs: number;
  readonly toMs: number;
  readonly organizations?: readonly string[] | undefined;
  readonly services?: readonly string[] | undefined;
  /** For one reader alone the whole stretch is read again; else only what no window covers. */
  readonly reader: string | null;
}

/**
 * Windows for what should be covered up to now and is not (R2). `since` counts where nothing was ever covered;
 * after that everything behind the newest covered time is wanted, however long nothing was read (R29). A live
 * window has no end, so this runs before new ones are placed.
 */
export async function addMissing(context: PollContext, scope: AccountScope, nowMs: number): Promise<void> {
  const heldMs = heldFromMs(context);
  const { wanted, taken } = await sinceOrBehind(context, nowMs, heldMs);
  const remove = () => takenOver(context, taken, heldMs);
  await addWindows(context, scope, { wanted, heldMs, reader: null, remove });
}

/** Adds windows for a requested stretch, and returns how many. */
export async function addHistory(
  context: PollContext,
  scope: AccountScope,
  request: HistoryRequest,
): Promise<number> {
  const heldMs = heldFromMs(context);
  const fromMs = Math.max(request.fromMs, heldMs);
  const toMs = Math.min(request.toMs, context.serviceClock.now());
  if (fromMs >= toMs) return 0;
  return addWindows(context, scope, { ...request, wanted: () => () => ({ fromMs, toMs }), heldMs });
}

async function sinceOrBehind(context: PollContext, toMs: number, heldMs: number) {
  const firstMs = Math.max(firstReadMs(context, toMs), heldMs);
  const leftMs = await leftBehind(context);
  const taken = new Map<string, number>();
  const wanted: Adding["wanted"] = (provider) => (covered, organization) => {
    const ends = covered.map((stretch) => stretch.toMs);
    const left = ends.length === 0 ? leftMs(provider, organization) : undefined;
    if (ends.length === 0) ends.push(left ?? firstMs);
    const fromMs = Math.min(firstMs, Math.max(...ends));
    if (left !== undefined && fromMs < toMs) taken.set(keyOf(provider, organization), fromMs);
    return fromMs < toMs ? { fromMs, toMs } : null;
  };
  return { wanted, taken };
}

/**
 * The windows of accounts outside the config whose time is read anew by this account. They go with the same change, or
 * their events would be counted twice. `taken`: from when on each owner is read.
 */
async function takenOver(
  { account, journal, settings }: PollContext,
  taken: ReadonlyMap<string, number>,
  heldMs: number,
): Promise<number[]> {
  if (taken.size === 0) return [];
  const ids: number[] = [];
  for (const { stream } of await journal.leftBehind(settings.accounts ?? [account])) {
    const starts = ownersOf(stream).map((owner) => taken.get(keyOf(stream.provider, owner)));
    if (starts.includes(undefined)) continue;
    const fromMs = Math.max(heldMs, ...starts.map((startMs) => startMs!));
    for (const window of await journal.windows({ stream: stream.id, fromMs }))
      if (window.fromMs >= fromMs && window.state !== "expired") ids.push(window.id);
  }
  return ids;
}

function keyOf(provider: string | null, owner: string): string {
  return JSON.stringify([provider, owner]);
}

/**
 * An account that is no longer in the config, for example because it was renamed, has read the organization before.
 * `since` counts only where nothing was ever covered (R29), so everything that it did not settle is read.
 */
async function leftBehind({ account, journal, settings }: PollContext) {
  const left = await journal.leftBehind(settings.accounts ?? [account]);
  const byOwner = new Map<string, number>();
  for (const { stream, fromMs } of left)
    for (const owner of ownersOf(stream)) {
      const key = keyOf(stream.provider, owner);
      byOwner.set(key, Math.min(fromMs, byOwner.get(key) ?? fromMs));
    }
  return (provider: string | null, owner: string) => byOwner.get(keyOf(provider, owner));
}

/**
 * After a restored copy, an organization that the copy does not know may have been read before. Everything since
 * the copy is read again, however short `since` is.
 */
function firstReadMs({ clock, settings: { sinceMs, restored } }: PollContext, nowMs: number): number {
  const isRestored = restored !== undefined && nowMs - restored.restoredMs < NEW_AFTER_RESTORE_MS;
  // By the earlier clock: a Date of the service that is ahead must not leave out what was asked for.
  const sinceStartMs = Math.min(nowMs, clock.now()) - sinceMs;
  return isRestored ? Math.min(sinceStartMs, restored.madeMs) : sinceStartMs;
}

/** First reads begin a little after the service's horizon: events before this may be forgotten before they are read. */
function heldFromMs({ serviceClock, settings }: PollContext): number {
  return serviceClock.now() - settings.retentionMs + HORIZON_MARGIN_MS;
}

interface Adding extends Pick<HistoryRequest, "organizations" | "services" | "reader"> {
  readonly wanted: (provider: string | null) => Wanted;
  /** Taken once for all stretches: a later look would find the first milliseconds of each forgotten. */
  readonly heldMs: number;
  /** Windows that the added ones replace. Asked for after `wanted`. */
  readonly remove?: () => Promise<number[]>;
}

async function addWindows(context: PollContext, scope: AccountScope, request: Adding): Promise<number> {
  const { wanted, reader } = request;
  const { journal, account, settings } = context;
  const ledger = reader === null ? await journal.covered(account) : [];
  const services = request.services ?? settings.services;
  const readByOthers = createReadByOthers(context, request.heldMs);
  const add: NewWindow[] = [];
  const gaps: NewGap[] = [];
  for (const { provider, owners } of askedFor(scope, request)) {
    const own = ledger.filter(({ stream }) => stream.provider === provider);
    for (const missing of missingStretches(owners, services, wanted(provider), own)) {
      const change = await windowsOf(context, scope, provider, missing, { ...request, readByOthers });
      add.push(...change.add);
      gaps.push(...change.gaps);
    }
  }
  if (add.length > 0) await journal.changeWindows({ add, gaps, remove: (await request.remove?.()) ?? [] });
  if (gaps.length > 0) await warnOfGaps(context);
  return add.length;
}

/** The provider's portal and the organizations, or those of them that the request names; "" is a stream's only owner. */
function askedFor(scope: AccountScope, { organizations }: Pick<HistoryRequest, "organizations">) {
  const named = organizations && new Set(organizations);
  const active = scope.organizations === null ? [""] : activeOf(scope).map((entry) => entry.id);
  const asked = [
    { provider: null as string | null, owners: named ? active.filter((id) => named.has(id)) : active },
  ];
  if (scope.provider !== null && (named?.has(scope.provider.toLowerCase()) ?? true))
    asked.push({ provider: scope.provider, owners: [""] });
  return asked;
}

interface OthersRead {
  readonly readByOthers: ReturnType<typeof createReadByOthers>;
}

async function windowsOf(
  context: PollContext,
  scope: AccountScope,
  provider: string | null,
  missing: Missing,
  { heldMs, reader, readByOthers }: Pick<Adding, "heldMs" | "reader"> & OthersRead,
): Promise<Required<Pick<WindowChange, "add" | "gaps">>> {
  const { journal, account, serviceClock, settings } = context;
  const traffic = new Map((scope.organizations ?? []).map((entry) => [entry.id, entry.traffic]));
  const entries = missing.organizations
    .filter((id) => id !== "")
    .map((id) => ({ id, traffic: traffic.get(id) ?? 0 }));
  const add: NewWindow[] = [];
  const gaps: NewGap[] = [];
  for (const organizations of entries.length === 0 ? [[]] : groupsFor(context, entries)) {
    const stream = await journal.stream({ account, provider, organizations, services: missing.services });
    for (const stretch of missing.stretches) {
      const { lost, left } = cutAt(stretch, heldMs);
      for (const piece of left === null ? [] : settings.archived ? cutAtMidnights(left) : [left])
        add.push(...windowsFor(stream, piece, serviceClock.now(), settings));
      if (lost === null) continue;
      const losses = await lossesOf(context, stream, lost, await readByOthers(provider));
      add.push(...losses.add);
      gaps.push(...losses.gaps);
    }
  }
  return { add: add.map((window) => ({ ...window, reader })), gaps };
}

const ARCHIVED_DAYS_MAX = 7;

/**
 * At most seven days long and cut at midnights in UTC, so that whole days are sealed, and an archive can close
 * them, while the rest of a long backfill is still unread (A1).
 */
export function cutAtMidnights({ fromMs, toMs }: TimeStretch): TimeStretch[] {
  const pieces: TimeStretch[] = [];
  for (let at = fromMs; at < toMs; ) {
    const end = Math.min((Math.floor(at / DAY_MS) + ARCHIVED_DAYS_MAX) * DAY_MS, toMs);
    pieces.push({ fromMs: at, toMs: end });
    at = end;
  }
  return pieces;
}

function cutAt({ fromMs, toMs }: TimeStretch, edgeMs: number) {
  return {
    lost: fromMs < edgeMs ? { fromMs, toMs: Math.min(toMs, edgeMs) } : null,
    left: toMs > edgeMs ? { fromMs: Math.max(fromMs, edgeMs), toMs } : null,
  };
}

/** The time during which an organization is refused is in the ledger too, as refused, with the reason (R5). */
export async function setRefusedAside(
  context: PollContext,
  scope: AccountScope,
  nowMs: number,
): Promise<void> {
  const { journal, account, settings } = context;
  const entries = scope.organizations ?? [];
  const refused = entries.filter((entry) => entry.state === "refused");
  refused.push(...(await goneWhileRefused(context, entries)));
  if (refused.length === 0) return;
  const ledger = (await journal.covered(account)).filter(({ stream }) => stream.provider === null);
  const byId = new Map(refused.map((entry) => [entry.id, entry]));
  const all = missingStretches(
    [...byId.keys()],
    settings.services,
    (await sinceOrBehind(context, nowMs, heldFromMs(context))).wanted(null),
    ledger,
  );
  for (const { organizations, services, stretches } of all)
    for (const id of organizations) await refuseStretches(context, byId.get(id)!, services, stretches);
}

/**
 * Organizations that were refused before the service stopped to list them. They have no live window, so nothing else
 * says that the time up to now is missing (R29). The new window has their new reason: it is added once.
 */
async function goneWhileRefused(
  { journal, account }: PollContext,
  entries: readonly RosterEntry[],
): Promise<RosterEntry[]> {
  const vanished = entries.filter((entry) => entry.state === "vanished");
  if (vanished.length === 0) return [];
  const newest = new Map<string, Window>();
  for (const window of await journal.windows({ account, states: ["refused"] }))
    for (const id of window.stream.organizations)
      if (window.toMs > (newest.get(id)?.toMs ?? 0)) newest.set(id, window);
  return vanished.filter(({ id }) => newest.has(id) && !isSetAside(newest.get(id)!.reason));
}

async function refuseStretches(
  { journal, account }: PollContext,
  { id, state, reason, nextMs }: RosterEntry,
  services: readonly string[],
  stretches: readonly TimeStretch[],
): Promise<void> {
  const stream = await journal.stream({ account, provider: null, organizations: [id], services });
  const before = await journal.windows({ stream: stream.id, states: ["refused"] });
  for (const { fromMs, toMs } of stretches) {
    const isSame = state === "refused";
    const grown = before.find((window) => isSame && window.toMs === fromMs && window.nextMs !== null);
    await journal.changeWindows(
      grown === undefined
        ? { add: [newWindow(stream, fromMs, toMs, { state: "refused", reason, nextMs })] }
        : { put: [{ ...grown, toMs, reason }] },
    );
  }
}
