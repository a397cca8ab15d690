import type { ModelEvent } from "./events.ts";
import type { ConfigChange, Effect, Fault } from "./faults.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS, type Plan, PORTAL, type PortalPlan, PROVIDER_ID } from "./plan.ts";
import { type Random, randomOf } from "./random.ts";

type Life = Pick<Plan, "seed" | "lengthMs" | "organizations" | "settings">;

/** Part of the lives have a provider's portal. It has random numbers of its own, so that all else of a seed stays as it was. */
export function withPortal<Made extends Life>(
  life: Made,
  long: boolean,
): { readonly life: Made & Pick<Plan, "portal">; readonly faults: readonly Fault[] } {
  const random = randomOf(life.seed, "portal");
  if (!random.chance(0.25)) return { life, faults: [] };
  const isLate = random.chance(0.4);
  const portal: PortalPlan = {
    index: PORTAL,
    joinsMs: -200 * DAY_MS,
    leavesMs: null,
    eventsPerDay: (long ? 3 : 15) * random.scale(0.2, 3),
    lateShare: isLate ? 0.2 : 0,
    lateMs: random.scale(10_000, HOUR_MS),
    equalShare: random.pick([0, 0.05]),
    twinShare: random.pick([0, 0, 0.1]),
    withoutIdShare: random.pick([0, 0, 0.1]),
    futureShare: random.pick([0, 0.03]),
    untimedShare: random.pick([0, 0, 0.02]),
    bursts: [],
    odd: random.chance(0.15)
      ? [
          {
            atMs: Math.floor(random.next() * life.lengthMs),
            kind: random.pick(["huge", "broken", "deep"] as const),
          },
        ]
      : [],
    named: random.chance(0.6) ? life.organizations.map(({ index }) => index) : [],
    sharedShare: random.pick([0, 0.1, 0.5, 1]),
    addsBytes: random.chance(0.2),
  };
  const settings = { ...life.settings, portal: random.chance(0.85) };
  return { life: { ...life, portal, settings }, faults: portalFaults(random, life, settings.portal) };
}

/** The portal is refused, or it is taken out of the config, or it comes into it. */
function portalFaults(random: Random, { lengthMs }: Life, isRead: boolean): Fault[] {
  const faults: Fault[] = [];
  const momentMs = () => Math.floor(random.next() * lengthMs);
  const reconfigure = (fromMs: number, change: ConfigChange) =>
    faults.push({ kind: "reconfigure", fromMs, downMs: 5000, change });
  if (random.chance(0.3)) {
    const fromMs = momentMs();
    const effect = random.pick<Effect>([
      { type: "tenant", organization: PORTAL, status: random.pick([402, 403, 404, 500] as const) },
      { type: "history", organization: PORTAL, keptMs: 3 * HOUR_MS },
    ]);
    const toMs = fromMs + Math.round(random.scale(MINUTE_MS, 12 * HOUR_MS));
    faults.push({ kind: "service", fromMs, toMs, effect });
  }
  if (!isRead) reconfigure(momentMs(), { type: "portal", isRead: true });
  else if (random.chance(0.2)) {
    const fromMs = momentMs();
    reconfigure(fromMs, { type: "portal", isRead: false });
    if (random.chance(0.7)) {
      const backMs = fromMs + 10_000 + Math.floor(random.next() * lengthMs);
      reconfigure(backMs, { type: "portal", isRead: true });
    }
  }
  return faults;
}

/** The plan without its portal. */
export function withoutPortal({ portal: _, ...plan }: Plan): Plan {
  const { portal: __, ...settings } = plan.settings;
  const faults = plan.faults.filter(
    (fault) => fault.kind !== "reconfigure" || fault.change.type !== "portal",
  );
  return { ...plan, settings, faults };
}

/** The events of an organization that the portal shows too, as it shows them. They come in the order of their numbers. */
export function sharedEvents(
  { seed }: Plan,
  portal: PortalPlan,
  organization: number,
  events: readonly ModelEvent[],
): ModelEvent[] {
  const random = randomOf(seed, `portal ${organization}`);
  const shared: ModelEvent[] = [];
  let before: ModelEvent | undefined;
  for (const event of events) {
    const isShown = random.chance(portal.sharedShare) && canBeShared(event);
    const shownMs = shownInPortalMs(random, portal, event);
    const text = portal.addsBytes ? withMoreBytes(event) : event.text;
    // Of an event alone its twin looks like a changed copy: whoever shows one shows the other, and not before it.
    if (event.isTwin)
      before = before && { ...event, organization: PORTAL, shownMs: Math.max(before.shownMs, event.shownMs) };
    else before = isShown ? { ...event, organization: PORTAL, shownMs, text } : undefined;
    if (before !== undefined) shared.push(before);
  }
  const twins = new Set(shared.filter(({ isTwin }) => isTwin).map(({ number }) => number - 1));
  const original = new Map(events.map(({ number, text }) => [number, text]));
  return shared.map((event) =>
    twins.has(event.number) ? { ...event, text: original.get(event.number)! } : event,
  );
}

/** Events of another organization, or of none, are others' in a portal. */
function canBeShared({ odd }: ModelEvent): boolean {
  return odd !== "foreign" && odd !== "nameless";
}

/** Earlier than the organization shows it, together with it, or later. */
function shownInPortalMs(random: Random, portal: PortalPlan, { timeMs, shownMs }: ModelEvent): number {
  const isEarly = random.chance(0.5);
  const soonMs = random.int(0, 20_000);
  const laterMs = Math.floor(random.heavy(portal.lateMs, 0.9));
  if (random.chance(portal.lateShare)) return shownMs + laterMs;
  return isEarly ? Math.min(timeMs, shownMs) + soonMs : shownMs;
}

/** The same event with a member more. Without an id, other bytes are another event. */
function withMoreBytes({ text, odd }: ModelEvent): string {
  if (odd !== null || !text.startsWith('{"id"')) return text;
  return `${text.slice(0, -1)},"provider":"${PROVIDER_ID}"}`;
}
