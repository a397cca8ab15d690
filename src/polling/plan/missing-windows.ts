import type { RosterEntry } from "../../core/roster.ts";
import { type NewWindow, newWindow } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import { groupsFor } from "./groups.ts";
import { activeOf, type Scope } from "./scope.ts";
import { type Missing, missingStretches, type Stretch, windowsFor } from "./sweep-times.ts";

/** First reads begin a little after the service's horizon, so that they do not expire under the reader's hands. */
const HORIZON_MARGIN_MS = 120_000;

/** A stretch of the past to be read once more or at all. */
export interface HistoryRequest {
  readonly fromMs: number;
  readonly toMs: number;
  readonly organizations?: readonly string[] | undefined;
  readonly services?: readonly string[] | undefined;
  /** For one reader alone the whole stretch is read again; else only what no window covers. */
  readonly reader: string | null;
}

/** Windows for what should be covered and is not: organizations × services × (since … now), less the ledger (R2). */
export async function addMissing(context: PollContext, scope: Scope): Promise<void> {
  const nowMs = context.serviceClock.now();
  await addHistory(context, scope, { fromMs: nowMs - context.settings.sinceMs, toMs: nowMs, reader: null });
}

/** Windows for a stretch; gives how many. */
export async function addHistory(
  context: PollContext,
  scope: Scope,
  request: HistoryRequest,
): Promise<number> {
  const { journal, account, settings } = context;
  const wanted = heldByService(context, request);
  if (wanted === null) return 0;
  const ledger = request.reader === null ? await journal.covered(account) : [];
  const services = request.services ?? settings.services;
  const add: NewWindow[] = [];
  for (const { provider, owners } of askedFor(scope, request)) {
    const own = ledger.filter(({ stream }) => stream.provider === provider);
    for (const missing of missingStretches(owners, services, wanted, own))
      add.push(...(await windowsOf(context, scope, provider, missing, request.reader)));
  }
  if (add.length > 0) await journal.changeWindows({ add });
  return add.length;
}

function heldByService({ serviceClock, settings }: PollContext, { fromMs, toMs }: Stretch): Stretch | null {
  const nowMs = serviceClock.now();
  const held = {
    fromMs: Math.max(fromMs, nowMs - settings.retentionMs + HORIZON_MARGIN_MS),
    toMs: Math.min(toMs, nowMs),
  };
  return held.fromMs < held.toMs ? held : null;
}

/** The provider's portal and the organizations, or those of them that the request names; "" is a stream's only owner. */
function askedFor(scope: Scope, { organizations }: HistoryRequest) {
  const named = organizations && new Set(organizations);
  const active = scope.organizations === null ? [""] : activeOf(scope).map((entry) => entry.id);
  const asked = [
    { provider: null as string | null, owners: named ? active.filter((id) => named.has(id)) : active },
  ];
  if (scope.provider !== null && (named?.has(scope.provider.toLowerCase()) ?? true))
    asked.push({ provider: scope.provider, owners: [""] });
  return asked;
}

async function windowsOf(
  context: PollContext,
  scope: Scope,
  provider: string | null,
  missing: Missing,
  reader: string | null,
): Promise<NewWindow[]> {
  const { journal, account, serviceClock, settings } = context;
  const traffic = new Map((scope.organizations ?? []).map((entry) => [entry.id, entry.traffic]));
  const entries = missing.organizations
    .filter((id) => id !== "")
    .map((id) => ({ id, traffic: traffic.get(id) ?? 0 }));
  const windows: NewWindow[] = [];
  for (const organizations of entries.length === 0 ? [[]] : groupsFor(context, entries)) {
    const stream = await journal.stream({ account, provider, organizations, services: missing.services });
    for (const stretch of missing.stretches)
      windows.push(...windowsFor(stream, stretch, serviceClock.now(), settings));
  }
  return windows.map((window) => ({ ...window, reader }));
}

/** The time during which an organization is refused is in the ledger too, as refused, with the reason (R5). */
export async function setRefusedAside(context: PollContext, scope: Scope): Promise<void> {
  const { journal, account, settings, serviceClock } = context;
  const refused = (scope.organizations ?? []).filter((entry) => entry.state === "refused");
  const nowMs = serviceClock.now();
  const wanted = heldByService(context, { fromMs: nowMs - settings.sinceMs, toMs: nowMs });
  if (refused.length === 0 || wanted === null) return;
  const ledger = (await journal.covered(account)).filter(({ stream }) => stream.provider === null);
  const byId = new Map(refused.map((entry) => [entry.id, entry]));
  const all = missingStretches([...byId.keys()], settings.services, wanted, ledger);
  for (const { organizations, services, stretches } of all)
    for (const id of organizations) await refuseStretches(context, byId.get(id)!, services, stretches);
}

async function refuseStretches(
  { journal, account }: PollContext,
  { id, reason, nextMs }: RosterEntry,
  services: readonly string[],
  stretches: readonly Stretch[],
): Promise<void> {
  const stream = await journal.stream({ account, provider: null, organizations: [id], services });
  const before = await journal.windows({ stream: stream.id, states: ["refused"] });
  for (const { fromMs, toMs } of stretches) {
    const grown = before.find((window) => window.toMs === fromMs && window.nextMs !== null);
    await journal.changeWindows(
      grown === undefined
        ? { add: [newWindow(stream, fromMs, toMs, { state: "refused", reason, nextMs })] }
        : { put: [{ ...grown, toMs, reason }] },
    );
  }
}
