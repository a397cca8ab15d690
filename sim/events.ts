import {
  type OddKind,
  type OrganizationPlan,
  organizationId,
  type Plan,
  PORTAL,
  type PortalPlan,
  START_MS,
} from "./plan.ts";
import { sharedEvents } from "./portal.ts";
import { type Random, randomOf } from "./random.ts";

/** An event of the model as one source shows it, and from when on. What a portal shows too is there twice. */
export interface ModelEvent {
  /** Its place in the life; the service orders events of one moment by it. */
  readonly number: number;
  /** The source: an organization or the portal. */
  readonly organization: number;
  /** It has the identity fields of the event before it, and other bytes. */
  readonly isTwin?: boolean;
  readonly service: string;
  /** The event's own time, in whole milliseconds, as its stamp says. */
  readonly timeMs: number;
  /** When the service begins to show it. */
  readonly shownMs: number;
  /** Its exact bytes, as text. */
  readonly text: string;
  readonly odd: OddKind | "untimed" | null;
}

/** `workflows` is not part of `all`: it has to be named. */
const SERVICES = ["directory", "sso", "ldap", "systems", "workflows"] as const;
const TYPES: Readonly<Record<string, readonly string[]>> = {
  directory: ["user_create", "user_update", "association_change"],
  sso: ["sso_auth"],
  ldap: ["ldap_bind", "ldap_search"],
  systems: ["user_login", "user_logout"],
  workflows: ["workflow_run"],
};

/** All events of a life, by organization, in the order in which the service gives them. */
export function eventsOf(plan: Plan): ReadonlyMap<number, readonly ModelEvent[]> {
  const byOrganization = new Map<number, readonly ModelEvent[]>();
  const ofPortal: ModelEvent[] = [];
  for (const organization of plan.organizations) {
    const events = organizationEvents(plan, organization);
    if (plan.portal) ofPortal.push(...sharedEvents(plan, plan.portal, organization.index, events));
    byOrganization.set(organization.index, events.sort(inOrder));
  }
  if (plan.portal !== undefined)
    byOrganization.set(PORTAL, [...ofPortal, ...organizationEvents(plan, plan.portal)].sort(inOrder));
  return byOrganization;
}

function inOrder(a: ModelEvent, b: ModelEvent): number {
  return a.timeMs - b.timeMs || a.number - b.number;
}

function organizationEvents(plan: Plan, organization: OrganizationPlan): ModelEvent[] {
  const random = randomOf(plan.seed, `events ${organization.index}`);
  const maker = createMaker(organization, random);
  const history = Math.min(plan.settings.retentionMs, plan.settings.sinceMs + 3 * 3_600_000);
  const untilMs = plan.lengthMs + calmMs(plan);
  let timeMs = START_MS - history;
  while (timeMs < START_MS + untilMs) {
    const gapMs = (-Math.log(1 - random.next()) * 86_400_000) / organization.eventsPerDay;
    timeMs += gapMs;
    if (timeMs < START_MS + untilMs) maker.add(Math.floor(timeMs));
  }
  for (const { atMs, events, spreadMs } of organization.bursts)
    for (let at = 0; at < events; at++)
      maker.add(START_MS + atMs + Math.floor(random.next() * spreadMs), "burst");
  for (const { atMs, kind } of organization.odd) maker.addOdd(START_MS + atMs, kind);
  return maker.events;
}

/** How long nothing goes wrong at the end: time for every retry and every listed sweep. */
export function calmMs({ settings, tickMs }: Pick<Plan, "settings" | "tickMs">): number {
  return settings.sweepsMs.at(-1)! + settings.windowMs + 5 * 3_600_000 + 12 * tickMs;
}

function createMaker(organization: OrganizationPlan, random: Random) {
  const events: ModelEvent[] = [];
  const base = organization.index * 1_000_000;
  let previousMs: number | undefined;

  function push(event: Omit<ModelEvent, "number" | "organization">): void {
    events.push({ number: base + events.length, organization: organization.index, ...event });
  }

  function lateBy(): number {
    if (!random.chance(organization.lateShare)) return random.int(0, 20_000);
    return Math.floor(random.heavy(organization.lateMs, 0.9));
  }

  function add(atMs: number, kind: "single" | "burst" = "single"): void {
    const isEqual = previousMs !== undefined && random.chance(organization.equalShare);
    let timeMs = isEqual ? previousMs! : atMs;
    // Stamped in the future by a source whose clock is fast; the service shows it at once.
    const isFuture = kind === "single" && random.chance(organization.futureShare);
    const happensMs = timeMs;
    if (isFuture) timeMs += Math.floor(random.heavy(60_000, 1.2));
    previousMs = isFuture ? previousMs : timeMs;
    const service = random.pick(SERVICES);
    const isUntimed = random.chance(organization.untimedShare);
    const shownMs = happensMs + lateBy();
    const fields = fieldsOf(organization, service, timeMs, base + events.length, random, isUntimed);
    push({ service, timeMs, shownMs, text: textOf(fields), odd: isUntimed ? "untimed" : null });
    if (!random.chance(organization.twinShare) || isUntimed) return;
    // A twin has the same identity fields and other bytes.
    const twin = [...fields.slice(0, -1), `"n":"${base + events.length}"`];
    push({
      service,
      timeMs,
      shownMs: shownMs + (random.chance(0.5) ? 0 : lateBy()),
      text: textOf(twin),
      odd: null,
      isTwin: true,
    });
  }

  function addOdd(timeMs: number, kind: OddKind): void {
    const fields = fieldsOf(organization, "directory", timeMs, base + events.length, random, false);
    push({ service: "directory", timeMs, shownMs: timeMs + 1000, text: oddText(fields, kind), odd: kind });
  }

  return { events, add, addOdd };
}

function textOf(fields: readonly string[]): string {
  return `{${fields.join(",")}}`;
}

function oddText(fields: readonly string[], kind: OddKind): string {
  switch (kind) {
    case "huge":
      return textOf([...fields, `"pad":"${"x".repeat(70_000)}"`]);
    case "broken":
      return textOf([...fields, `"value":NaN`]);
    case "deep":
      return textOf([...fields, `"deep":${"[".repeat(600)}${"]".repeat(600)}`]);
    case "foreign":
      return textOf(
        fields.map((field) =>
          field.startsWith('"organization"') ? `"organization":"${"f".repeat(24)}"` : field,
        ),
      );
    case "nameless":
      return textOf(
        fields.map((field) => (field.startsWith('"organization"') ? `"organization":null` : field)),
      );
  }
}

/** The last field makes the bytes of each event its own. */
function fieldsOf(
  organization: OrganizationPlan,
  service: string,
  timeMs: number,
  number: number,
  random: Random,
  isUntimed: boolean,
): string[] {
  const fields: string[] = [];
  if (!random.chance(organization.withoutIdShare)) fields.push(`"id":"${idOf(number, random)}"`);
  fields.push(
    isUntimed ? `"timestamp":"never"` : `"timestamp":"${stampOf(timeMs, random)}"`,
    `"service":"${service}"`,
    `"event_type":"${random.pick(TYPES[service]!)}"`,
    `"organization":${ownerOf(organization, random)}`,
  );
  if (random.chance(0.2)) fields.push(`"success":${random.chance(0.9)}`);
  if (random.chance(0.1)) fields.push(`"username":"J\\u00f6rg \\"Ü\\" 🦊"`);
  if (random.chance(0.1)) fields.push(`"big":12345678901234567890.0`);
  fields.push(`"n":"${number}"`);
  return fields;
}

/** An event of the portal's own names one of its organizations, or none. */
function ownerOf(source: OrganizationPlan | PortalPlan, random: Random): string {
  if (source.index !== PORTAL) return `"${organizationId(source.index)}"`;
  const { named } = source as PortalPlan;
  return named.length === 0 || random.chance(0.5) ? "null" : `"${organizationId(random.pick(named))}"`;
}

function idOf(number: number, random: Random): string {
  const hex = number.toString(16).padStart(12, "0");
  if (random.chance(0.5)) return `0000${hex}00c0ffee`;
  return `${hex.slice(0, 8)}-${hex.slice(8)}-4000-8000-00000000cafe`;
}

/** Stamps carry 0, 3 or 9 digits of a fraction; without one the time is a whole second. */
function stampOf(timeMs: number, random: Random): string {
  const text = new Date(timeMs).toISOString();
  if (timeMs % 1000 === 0 && random.chance(0.5)) return text.replace(".000Z", "Z");
  return random.chance(0.2) ? text.replace("Z", "000000Z") : text;
}
