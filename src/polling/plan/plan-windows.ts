import { isSetAside, NOT_IN_CONFIG, NOT_LISTED, type RosterEntry } from "../../core/roster.ts";
import {
  LIVE_BEHIND_MS_MAX,
  type NewWindow,
  newWindow,
  StaleWindowError,
  type Stream,
  type Window,
} from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import { isHistoryLimit } from "../limits/history-alarm.ts";
import { endedWindow } from "../read/commit-page.ts";
import { loseForgottenRefused } from "../read/forgotten.ts";
import { passTakenOver } from "../read/take-over.ts";
import { bringBack } from "./bring-back.ts";
import { groupsFor } from "./groups.ts";
import { addMissing, setRefusedAside } from "./missing-windows.ts";
import { type AccountScope, activeOf, streamOf } from "./scope.ts";

/**
 * Brings the ledger in line with the config, the organizations that exist and the time.
 *
 * 0. Windows that reach beyond now are brought back.
 * 1. Windows of organizations that are gone are set aside; those of organizations that are back, and refused
 *    ones whose time has come, are unread again.
 * 2. Refused windows that the service has forgotten become gaps.
 * 3. Live windows that are far behind end; their time is read as history, in parallel.
 * 4. What no window covers up to now gets one (R2, R29), refused organizations a refused one.
 * 5. Refused windows of organizations that are gone say so: they are not tried again.
 * 6. Every active organization has its place in one live window, from now on.
 *
 * A crash between two steps leaves time that no window covers behind the newest covered one: step 4 of the
 * next plan finds it.
 */
export async function planWindows(context: PollContext, scope: AccountScope): Promise<void> {
  const nowMs = context.serviceClock.now();
  await bringBack(context, nowMs);
  await setAside(context, scope, nowMs);
  await loseForgottenRefused(context);
  await closeStragglers(context, scope, nowMs);
  await addMissing(context, scope, nowMs);
  await setRefusedAside(context, scope, nowMs);
  await nameSetAside(context, scope);
  await placeLive(context, scope, nowMs);
}

async function setAside(context: PollContext, scope: AccountScope, nowMs: number): Promise<void> {
  const { journal, account } = context;
  const active = new Set(activeOf(scope).map((entry) => entry.id));
  const reasons = new Map(
    (scope.organizations ?? []).map((entry) => [entry.id, entry.reason ?? entry.state]),
  );
  for (const window of await journal.windows({ account, states: ["unread", "refused"] })) {
    const { organizations } = window.stream;
    if (organizations.length === 0) continue;
    const here = organizations.filter((id) => active.has(id));
    if (window.state === "refused" && (here.length === 0 || !isTriedAgain(window, nowMs))) continue;
    if (window.state === "unread" && here.length === organizations.length) continue;
    const add = window.live ? endedWindow(context, window, window.toMs) : [];
    // The end of a window that was never read is a millisecond behind its beginning.
    if (window.live)
      add.push(...(await untilGone(context, { ...window, toMs: add.at(-1)!.toMs }, scope, nowMs)));
    else {
      if (here.length > 0) add.push(await part(context, window, here, null));
      for (const id of organizations.filter((id) => !active.has(id)))
        add.push(await part(context, window, [id], reasons.get(id) ?? NOT_IN_CONFIG));
    }
    await journal.changeWindows((now) => {
      const stored = now.window(window.id);
      // It was read on meanwhile: the plan is made anew, or its time would be in two windows.
      const hasMoved = window.reader !== null && stored?.pass?.pages !== window.pass?.pages;
      if (stored?.fromMs !== window.fromMs || stored.toMs !== window.toMs || hasMoved)
        throw new StaleWindowError(window.id);
      return { remove: [window.id], add };
    });
  }
}

/**
 * An organization may have had events between its last live read and its end, or before it was taken out of the
 * config, for instance while the program was stopped. That time is refused, and becomes a gap unless the
 * organization comes back (R29).
 */
async function untilGone(
  context: PollContext,
  { stream, toMs, reader }: Window,
  scope: AccountScope,
  nowMs: number,
): Promise<NewWindow[]> {
  const known = new Map((scope.organizations ?? []).map((entry) => [entry.id, entry]));
  const windows: NewWindow[] = [];
  for (const id of toMs < nowMs ? stream.organizations : []) {
    const entry = known.get(id);
    if (entry !== undefined && entry.state !== "vanished") continue;
    const own = await streamOf(context, stream, [id]);
    const reason = entry === undefined ? NOT_IN_CONFIG : (entry.reason ?? NOT_LISTED);
    windows.push(newWindow(own, toMs, nowMs, { reader, state: "refused", reason, nextMs: null }));
  }
  return windows;
}

/** An organization that the service refused is gone: its windows wait for no further try. */
async function nameSetAside({ journal, account }: PollContext, scope: AccountScope): Promise<void> {
  const known = new Map((scope.organizations ?? []).map((entry) => [entry.id, entry]));
  const put: Window[] = [];
  for (const window of await journal.windows({ account, states: ["refused"] })) {
    const entries = window.stream.organizations.map((id) => known.get(id));
    if (entries.length === 0 || isSetAside(window.reason)) continue;
    if (entries.some((entry) => entry !== undefined && entry.state !== "vanished")) continue;
    const why = entries[0]?.reason ?? NOT_IN_CONFIG;
    put.push({ ...window, nextMs: null, reason: window.reason === null ? why : `${why} (${window.reason})` });
  }
  if (put.length > 0) await journal.changeWindows({ put });
}

/** A limit of history is tried again when its time has come, every other refusal as soon as the organization is back (R34). */
function isTriedAgain({ reason, nextMs }: Window, nowMs: number): boolean {
  return !isHistoryLimit(reason) || (nextMs ?? 0) <= nowMs;
}

/** Some of a window's organizations, to be read anew, or refused with a reason. */
async function part(
  context: PollContext,
  window: Window,
  organizations: readonly string[],
  reason: string | null,
): Promise<NewWindow> {
  const stream = await streamOf(context, window.stream, organizations);
  const { fromMs, toMs, reader } = window;
  const pass = passTakenOver(context, window, toMs);
  return reason === null
    ? newWindow(stream, fromMs, toMs, { reader, pass })
    : newWindow(stream, fromMs, toMs, {
        ...{ reader, pass, state: "refused", reason },
        nextMs: isSetAside(reason) ? null : toMs,
      });
}

/** The time behind them is added by step 4, but for a portal that is not read any more: its window ends now. */
async function closeStragglers(context: PollContext, scope: AccountScope, nowMs: number): Promise<void> {
  const { journal, account } = context;
  for (const window of await journal.windows({ account, live: true })) {
    if (nowMs - window.toMs <= LIVE_BEHIND_MS_MAX) continue;
    await journal.changeWindows((now) => {
      // Its read may have come to an end meanwhile.
      const stored = now.window(window.id);
      if (stored === undefined || nowMs - stored.toMs <= LIVE_BEHIND_MS_MAX) return {};
      const endMs = isDropped(stored.stream, scope) ? nowMs : stored.toMs;
      return { remove: [stored.id], add: endedWindow(context, stored, endMs) };
    });
  }
}

/** A portal, or the key's own organization, that the account does not read any more. */
function isDropped({ provider, organizations }: Stream, scope: AccountScope): boolean {
  if (organizations.length > 0) return false;
  return provider === null ? scope.organizations !== null : provider !== scope.provider;
}

/** Every active organization in exactly one live window of the services that are read now. */
async function placeLive(context: PollContext, scope: AccountScope, nowMs: number): Promise<void> {
  const { journal, account } = context;
  const live = await journal.windows({ account, live: true });
  const wanted = await wantedStreams(context, scope, live);
  const kept = new Set<number>();
  for (const window of live) {
    // A regrouping may have left two live windows of one stream: the first is enough.
    if (wanted.has(window.stream.id) && !kept.has(window.stream.id)) kept.add(window.stream.id);
    else
      await journal.changeWindows((now) => {
        const stored = now.window(window.id);
        // Others have replaced it meanwhile. More live windows of its members would read the same time twice.
        if (stored === undefined) throw new StaleWindowError(window.id);
        return { remove: [stored.id], add: endedWindow(context, stored, nowMs) };
      });
  }
  const add = [...wanted.values()]
    .filter((stream) => !kept.has(stream.id))
    .map((stream) => newWindow(stream, nowMs, nowMs, { live: true }));
  if (add.length > 0) await journal.changeWindows({ add });
}

/** Groups that still fit stay as they are; the others' members are grouped anew. */
async function wantedStreams(
  context: PollContext,
  scope: AccountScope,
  live: readonly Window[],
): Promise<Map<number, Stream>> {
  const { journal, account, settings } = context;
  const services = [...settings.services].sort();
  const wanted = new Map<number, Stream>();
  const want = async (provider: string | null, organizations: readonly string[]) => {
    const stream = await journal.stream({ account, provider, organizations, services });
    wanted.set(stream.id, stream);
  };
  if (scope.provider !== null) await want(scope.provider, []);
  if (scope.organizations === null) {
    await want(null, []);
    return wanted;
  }
  const active = activeOf(scope);
  const ideal = groupsFor(context, active);
  const standing = standingGroups(context, active, services, live);
  const taken = new Set(standing.flat());
  const rest = groupsFor(
    context,
    active.filter((entry) => !taken.has(entry.id)),
  );
  const groups = standing.length + rest.length <= ideal.length * 1.2 + 1 ? [...standing, ...rest] : ideal;
  for (const group of groups) await want(null, group);
  return wanted;
}

/** The live groups of these services that grouping their members anew would not cut; none shares a member with another. */
function standingGroups(
  context: PollContext,
  active: readonly RosterEntry[],
  services: readonly string[],
  live: readonly Window[],
): (readonly string[])[] {
  const members = new Map(active.map((entry) => [entry.id, entry]));
  const taken = new Set<string>();
  const standing: (readonly string[])[] = [];
  for (const { stream } of live) {
    const entries = stream.organizations.map((id) => members.get(id)).filter((entry) => entry !== undefined);
    if (stream.provider !== null || entries.length === 0) continue;
    if (entries.length < stream.organizations.length || entries.some((entry) => taken.has(entry.id)))
      continue;
    if (JSON.stringify(stream.services) !== JSON.stringify(services)) continue;
    if (groupsFor(context, entries).length > 1) continue;
    standing.push(stream.organizations);
    for (const { id } of entries) taken.add(id);
  }
  return standing;
}
