import type { JournalEvent } from "../../core/event.ts";
import { type Fields, type Meaning, type Party, text } from "../../core/meaning.ts";
import { carry } from "../leftover.ts";
import {
  actor,
  authenticationDetails,
  device,
  endpoint,
  entity,
  group,
  hasName,
  isPerson,
  user,
  webResource,
} from "./objects.ts";
import type { ClassName, OcsfClass, Row } from "./schema.ts";

export interface Filling {
  readonly source: JournalEvent;
  readonly event: Fields;
  readonly meaning: Meaning;
  readonly row: Row;
  readonly class: OcsfClass;
}

/**
 * Writes what a class asks for beyond what all events have. False, with nothing written and nothing
 * taken from the event, where the event cannot fill what the class requires.
 */
type Fill = (out: Fields, filling: Filling) => boolean;

export const fills: Readonly<Record<ClassName, Fill>> = {
  base_event(out, filling) {
    surroundings(out, filling, filling.meaning.actor ?? filling.meaning.subject);
    return true;
  },

  authentication(out, filling) {
    const { meaning, event } = filling;
    if (!isPerson(meaning.subject)) return false;
    const app = meaning.application;
    const service = app?.label ?? app?.name ?? meaning.authentication?.service ?? text(event, "service");
    if (service === undefined) return false;
    out.user = user(meaning.subject);
    out.service = { name: carry(service), uid: carry(app?.id) };
    authenticationDetails(out, meaning.authentication);
    requested(out, meaning);
    surroundings(out, filling, meaning.actor === meaning.subject ? undefined : meaning.actor);
    return true;
  },

  account_change(out, filling) {
    const { meaning, row } = filling;
    const account = accountOf(meaning, row);
    if (account === undefined) return false;
    out.user = user(account);
    requested(out, meaning);
    surroundings(out, filling, meaning.actor);
    return true;
  },

  entity_management(out, filling) {
    const { meaning } = filling;
    const managed = meaning.target ?? managedOtherwise(filling);
    if (!hasName(managed)) return false;
    out.entity = entity(managed, meaning.device);
    requested(out, meaning);
    surroundings(out, filling, meaning.actor);
    return true;
  },

  user_access(out, filling) {
    const { meaning } = filling;
    const account = accountOf(meaning, filling.row);
    if (account === undefined) return false;
    out.user = user(account);
    // The event types of this class grant and revoke exactly this.
    out.privileges = ["sudo"];
    requested(out, meaning);
    surroundings(out, filling, meaning.actor);
    return true;
  },

  group_management(out, filling) {
    const { meaning } = filling;
    const found = [meaning.target, meaning.associate].find((party) => hasName(party) && !isUser(party));
    if (found === undefined) return false;
    out.group = group(found);
    if (isUser(meaning.associate)) out.user = user(meaning.associate);
    requested(out, meaning);
    surroundings(out, filling, meaning.actor);
    return true;
  },

  detection_finding(out, filling) {
    const { meaning, event, source } = filling;
    out.finding_info = {
      uid: carry(text(event.resource, "id")) ?? source.identity,
      uid_alt: carry(text(event.resource, "reference_id")),
      title: carry(text(event.resource, "name")),
      types: meaning.category && [carry(meaning.category)],
    };
    findingStatus(out, filling);
    const from = endpoint(meaning.origin);
    if (from) out.evidences = [{ src_endpoint: from }];
    surroundings(out, filling, meaning.actor);
    return true;
  },

  device_config_state_change(out, filling) {
    const found = device(filling.meaning.device);
    if (found === undefined) return false;
    surroundings(out, filling, filling.meaning.actor);
    return true;
  },

  web_resources_activity(out, filling) {
    const { meaning } = filling;
    const resource = webResource(
      meaning.item ?? (meaning.target?.kind === "other" ? meaning.target : undefined),
    );
    if (resource === undefined) return false;
    out.web_resources = [resource];
    requested(out, meaning);
    surroundings(out, filling, meaning.actor);
    return true;
  },

  application_lifecycle(out, filling) {
    const app = filling.meaning.application;
    if ((app?.name ?? app?.id) === undefined) return false;
    out.app = {
      name: carry(app?.name),
      uid: carry(app?.id),
      version: carry(app?.version),
      path: carry(app?.path),
      vendor_name: carry(app?.publisher),
    };
    surroundings(out, filling, filling.meaning.actor);
    return true;
  },
};

const NEW = { id: 1, caption: "New" };
const IN_PROGRESS = { id: 2, caption: "In Progress" };
const RESOLVED = { id: 4, caption: "Resolved" };
const FINDING_STATUS: ReadonlyMap<string, { id: number; caption: string }> = new Map([
  ["open", NEW],
  ["new", NEW],
  ["reopened", NEW],
  ["acknowledged", IN_PROGRESS],
  ["in progress", IN_PROGRESS],
  ["suppressed", { id: 3, caption: "Suppressed" }],
  ["resolved", RESOLVED],
  ["closed", RESOLVED],
]);

/** A finding's status is its own, not the outcome of a request: what the last change of status says. */
function findingStatus(out: Fields, { row, meaning }: Filling): void {
  const isStatus = (change: unknown) => text(change, "field")?.value.toLowerCase() === "status";
  const to = text(meaning.changes?.value.findLast(isStatus), "to")?.value.toLowerCase();
  const known = FINDING_STATUS.get(to ?? "") ?? (row.activity === 1 ? NEW : { id: 0, caption: "Unknown" });
  out.status_id = known.id;
  out.status = known.caption;
}

/** Where the request came from, for the classes that know of requests. */
function requested(out: Fields, meaning: Meaning): void {
  const { origin } = meaning;
  if (origin === undefined) return;
  out.src_endpoint = endpoint(origin);
  const agent = origin.userAgent?.original;
  if (agent) out.http_request = { user_agent: carry(agent) };
}

function surroundings(out: Fields, filling: Filling, acting: Party | undefined): void {
  if (acting) out.actor = actor(acting);
  if (filling.meaning.device) out.device = device(filling.meaning.device);
}

function isUser(party: Party | undefined): party is Party {
  return hasName(party) && (party.kind === "user" || party.kind === "admin");
}

/**
 * Whose account is changed: whom the event is about. Who initiated it only where people do such things to
 * themselves; else an administrator who suspends somebody would look suspended.
 */
function accountOf(meaning: Meaning, row: Row): Party | undefined {
  const found = [meaning.target, meaning.associate].find(isUser);
  if (found) return found;
  if (hasName(meaning.target) && meaning.target.kind === "other") return meaning.target;
  if (!row.self) return undefined;
  return isUser(meaning.subject) ? meaning.subject : isUser(meaning.actor) ? meaning.actor : undefined;
}

/**
 * What is managed where the event names no resource: the application, else the device, else who is bound
 * to it. What is switched on or off, or set, without naming anything, is so for the organization.
 */
function managedOtherwise({ meaning, event, row }: Filling): Party | undefined {
  const { application: app, device: on, associate } = meaning;
  if (app) return { kind: "application", id: app.id, name: app.name ?? app.label };
  if (on) return { kind: "device", id: on.id, name: on.hostname, label: on.name };
  if (associate) return associate;
  const owner = text(event, "organization");
  const wide = row.activity === 3 || row.activity === 8 || row.activity === 9;
  return wide && owner ? { kind: "organization", id: owner } : undefined;
}
