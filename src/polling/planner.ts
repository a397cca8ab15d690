import type { RosterEntry } from "../core/roster.ts";
import { type NewWindow, newWindow, type Stream, type Window } from "../core/window.ts";
import type { PollContext } from "./context.ts";
import { groupsOf } from "./groups.ts";
import { missingStretches, type Stretch, settle, windowsFor } from "./plan.ts";

/** First reads begin a little after the service's horizon, so that they do not expire under the reader's hands. */
const HORIZON_MARGIN_MS = 120_000;
/** A live window further behind than this is closed, and what it missed is read as history, in parallel. */
const LIVE_BEHIND_MS_MAX = 3_600_000;

export const NOT_IN_CONFIG = "not in the config any more";

/** What the account reads now; organizations of null are the key's own. */
export interface Scope {
  readonly organizations: readonly RosterEntry[] | null;
  readonly provider: string | null;
}

/**
 * Brings the ledger in line with the config, the organizations that exist and the time: windows of
 * organizations that are gone are set aside, those of organizations that are back are unread again, what no
 * window covers gets one (R2), and every organization has its place in one live window.
 */
export async function planWindows(context: PollContext, scope: Scope): Promise<void> {
  await setAside(context, scope);
  await closeStragglers(context);
  await placeLive(context, scope);
  await addMissing(context, scope);
}

async function setAside(context: PollContext, scope: Scope): Promise<void> {
  const { journal, account } = context;
  const active = new Set(
    (scope.organizations ?? []).filter((entry) => entry.state === "active").map((entry) => entry.id),
  );
  const reasons = new Map(
    (scope.organizations ?? []).map((entry) => [entry.id, entry.reason ?? entry.state]),
  );
  for (const window of await journal.windows({ account, states: ["unread", "refused"] })) {
    const { organizations } = window.stream;
    if (organizations.length === 0) continue;
    const here = organizations.filter((id) => active.has(id));
    if (window.state === "refused" && (here.length === 0 || window.nextMs === null)) continue;
    if (window.state === "unread" && here.length === organizations.length) continue;
    const add: NewWindow[] = [];
    if (here.length > 0 && !window.live)
      add.push(part(window, await streamOf(context, window.stream, here), "unread", null));
    for (const id of organizations.filter((id) => !active.has(id))) {
      if (window.live) continue;
      add.push(
        part(
          window,
          await streamOf(context, window.stream, [id]),
          "refused",
          reasons.get(id) ?? NOT_IN_CONFIG,
        ),
      );
    }
    const live = window.live ? closed(context, window) : [];
    await journal.changeWindows({ remove: [window.id], add: [...add, ...live] });
  }
}

function part(window: Window, stream: Stream, state: "unread" | "refused", reason: string | null): NewWindow {
  const nextMs = state === "refused" ? window.toMs : null;
  return newWindow(stream, window.fromMs, window.toMs, { state, reason, nextMs, reader: window.reader });
}

/** A live window that ends: what it has read stays as a window of its own. */
export function closed(context: PollContext, window: Window): NewWindow[] {
  if (window.toMs <= window.fromMs) return [];
  const { late, repeated, changed } = window;
  const read = newWindow(window.stream, window.fromMs, window.toMs, { late, repeated, changed });
  return [settle(read, window.askedMs ?? window.toMs, 0, context.settings)];
}

async function closeStragglers(context: PollContext): Promise<void> {
  const { journal, account, serviceClock } = context;
  for (const window of await journal.windows({ account, live: true })) {
    if (serviceClock.now() - window.toMs <= LIVE_BEHIND_MS_MAX) continue;
    await journal.changeWindows({ remove: [window.id], add: closed(context, window) });
  }
}

/** Every active organization in exactly one live window of the services that are read now. */
async function placeLive(context: PollContext, scope: Scope): Promise<void> {
  const { journal, account, serviceClock } = context;
  const nowMs = serviceClock.now();
  const wanted = await wantedStreams(context, scope);
  const live = await journal.windows({ account, live: true });
  const kept = new Set(live.map((window) => window.stream.id));
  for (const window of live) {
    if (!wanted.has(window.stream.id))
      await journal.changeWindows({ remove: [window.id], add: closed(context, window) });
  }
  const add = [...wanted.values()]
    .filter((stream) => !kept.has(stream.id))
    .map((stream) => newWindow(stream, nowMs, nowMs, { live: true }));
  if (add.length > 0) await journal.changeWindows({ add });
}

/** Groups that still fit stay as they are; the others' members are grouped anew. */
async function wantedStreams(context: PollContext, scope: Scope): Promise<Map<number, Stream>> {
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
  const active = scope.organizations.filter((entry) => entry.state === "active");
  const ideal = groupsOf(active, settings.headerBytesMax, (organizations) =>
    context.source.headerBytes({ organizations }),
  );
  const standing = await standingGroups(context, active, services);
  const taken = new Set(standing.flat());
  const rest = groupsOf(
    active.filter((entry) => !taken.has(entry.id)),
    settings.headerBytesMax,
    (organizations) => context.source.headerBytes({ organizations }),
  );
  const groups = standing.length + rest.length <= ideal.length * 1.5 + 2 ? [...standing, ...rest] : ideal;
  for (const group of groups) await want(null, group);
  return wanted;
}

async function standingGroups(
  context: PollContext,
  active: readonly RosterEntry[],
  services: readonly string[],
) {
  const { journal, account, settings, source } = context;
  const members = new Map(active.map((entry) => [entry.id, entry]));
  const standing: (readonly string[])[] = [];
  for (const { stream } of await journal.windows({ account, live: true })) {
    const entries = stream.organizations.map((id) => members.get(id));
    if (stream.provider !== null || entries.length === 0 || entries.some((entry) => entry === undefined))
      continue;
    if (JSON.stringify(stream.services) !== JSON.stringify(services)) continue;
    if (
      source.headerBytes({ organizations: stream.organizations }) > settings.headerBytesMax &&
      entries.length > 1
    )
      continue;
    // A group is left as it is only if grouping its members anew would not cut it.
    if (
      groupsOf(entries as RosterEntry[], settings.headerBytesMax, (organizations) =>
        source.headerBytes({ organizations }),
      ).length === 1
    ) {
      standing.push(stream.organizations);
    }
  }
  return standing;
}

async function addMissing(context: PollContext, scope: Scope): Promise<void> {
  const { journal, account, serviceClock, settings } = context;
  const nowMs = serviceClock.now();
  const wanted: Stretch = {
    fromMs: Math.max(nowMs - settings.sinceMs, nowMs - settings.retentionMs + HORIZON_MARGIN_MS),
    toMs: nowMs,
  };
  const ledger = await journal.windows({ account });
  const add: NewWindow[] = [];
  const portal = ledger.filter(
    ({ stream }) => stream.provider !== null && stream.provider === scope.provider,
  );
  if (scope.provider !== null) await cover([""], portal, scope.provider);
  const others = ledger.filter(({ stream }) => stream.provider === null);
  const active =
    scope.organizations === null
      ? [""]
      : scope.organizations.filter((entry) => entry.state === "active").map((entry) => entry.id);
  await cover(active, others, null);
  if (add.length > 0) await journal.changeWindows({ add });

  async function cover(
    owners: readonly string[],
    windows: readonly Window[],
    provider: string | null,
  ): Promise<void> {
    for (const missing of missingStretches(owners, settings.services, wanted, windows)) {
      const traffic = new Map((scope.organizations ?? []).map((entry) => [entry.id, entry.traffic]));
      const members = missing.organizations
        .filter((id) => id !== "")
        .map((id) => ({ id, traffic: traffic.get(id) ?? 0 }));
      const groups =
        members.length === 0
          ? [[]]
          : groupsOf(members, settings.headerBytesMax, (organizations) =>
              context.source.headerBytes({ organizations }),
            );
      for (const organizations of groups) {
        const stream = await journal.stream({ account, provider, organizations, services: missing.services });
        for (const stretch of missing.stretches) add.push(...windowsFor(stream, stretch, nowMs, settings));
      }
    }
  }
}

export function streamOf(
  context: PollContext,
  like: Stream,
  organizations: readonly string[],
): Promise<Stream> {
  return context.journal.stream({
    account: context.account,
    provider: like.provider,
    organizations,
    services: like.services,
  });
}

export interface HistoryRequest {
  readonly fromMs: number;
  readonly toMs: number;
  readonly organizations?: readonly string[] | undefined;
  readonly services?: readonly string[] | undefined;
  /** For one reader alone the whole stretch is read again; else only what no window covers. */
  readonly reader: string | null;
}

/** Adds windows for a one-off stretch; gives how many. */
export async function addHistory(
  context: PollContext,
  scope: Scope,
  request: HistoryRequest,
): Promise<number> {
  const { journal, account, serviceClock, settings } = context;
  const nowMs = serviceClock.now();
  const wanted: Stretch = {
    fromMs: Math.max(request.fromMs, nowMs - settings.retentionMs + HORIZON_MARGIN_MS),
    toMs: Math.min(request.toMs, nowMs),
  };
  if (wanted.toMs <= wanted.fromMs) return 0;
  const services = request.services ?? settings.services;
  const active = scope.organizations?.filter((entry) => entry.state === "active").map((entry) => entry.id);
  const owners =
    active === undefined ? [""] : active.filter((id) => request.organizations?.includes(id) ?? true);
  const ledger =
    request.reader === null
      ? (await journal.windows({ account })).filter(({ stream }) => stream.provider === null)
      : [];
  const add: NewWindow[] = [];
  for (const missing of missingStretches(owners, services, wanted, ledger)) {
    const members = missing.organizations.filter((id) => id !== "").map((id) => ({ id, traffic: 0 }));
    const groups =
      members.length === 0
        ? [[]]
        : groupsOf(members, settings.headerBytesMax, (organizations) =>
            context.source.headerBytes({ organizations }),
          );
    for (const organizations of groups) {
      const stream = await journal.stream({
        account,
        provider: null,
        organizations,
        services: missing.services,
      });
      for (const stretch of missing.stretches) {
        add.push(
          ...windowsFor(stream, stretch, nowMs, settings).map((window) => ({
            ...window,
            reader: request.reader,
          })),
        );
      }
    }
  }
  if (add.length > 0) await journal.changeWindows({ add });
  return add.length;
}
