import { z } from "zod";
import type { JournalEvent } from "../core/event.ts";

const list = (description: string) => z.array(z.string().min(1)).min(1).optional().meta({ description });

/** Which events a sink gets; all named conditions must hold. */
export const routeSchema = z.strictObject({
  accounts: list(
    "Names of accounts. An event that two accounts can read belongs to the one that read it first.",
  ),
  organizations: list("Ids of organizations."),
  services: list("Services, as the events name them."),
  eventTypes: list("Event types; a * matches anything."),
});

export type EventFilter = z.output<typeof routeSchema>;

/** Which events a sink gets, as its config says. JSON: it is stored with the bounds of a batch. */
export interface SinkRoute {
  readonly only?: EventFilter | undefined;
  readonly except?: EventFilter | undefined;
  readonly sinceMs?: number | undefined;
}

/** `isOwn`: the event was read for this sink alone (R21). Then it counts that a person asked for it, not when it happened. */
export type Wants = (event: JournalEvent, isOwn?: boolean) => boolean;

/** The filter that leaves nothing out. */
export const everything = (): boolean => true;

/** Events that are left out are passed over, and the position moves past them (R13). */
export function filterOf({ only, except, sinceMs = Number.NEGATIVE_INFINITY }: SinkRoute): Wants {
  const wanted = only === undefined ? undefined : matcherOf(only);
  const unwanted = except === undefined ? undefined : matcherOf(except);
  const isEverything = wanted === undefined && unwanted === undefined && sinceMs === Number.NEGATIVE_INFINITY;
  if (isEverything) return everything;
  return (event, isOwn = false) =>
    (isOwn || event.timestampMs >= sinceMs) && (wanted === undefined || wanted(event)) && !unwanted?.(event);
}

function matcherOf(route: EventFilter): (event: JournalEvent) => boolean {
  const checks: ((event: JournalEvent) => boolean)[] = [];
  const { accounts, organizations, services, eventTypes } = route;
  if (accounts !== undefined) checks.push((event) => accounts.includes(event.account));
  if (organizations !== undefined) {
    const ids = new Set(organizations.map((id) => id.toLowerCase()));
    checks.push((event) => event.organization !== null && ids.has(event.organization));
  }
  if (services !== undefined) checks.push((event) => services.includes(event.service));
  if (eventTypes !== undefined) {
    const patterns = eventTypes.map(patternOf);
    checks.push((event) => patterns.some((pattern) => pattern.test(event.eventType)));
  }
  return (event) => checks.every((check) => check(event));
}

/** A text in which * matches anything, as a regular expression. */
export function patternOf(text: string): RegExp {
  const literal = text.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${literal.join(".*")}$`, "i");
}
