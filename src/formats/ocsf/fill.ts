import type { JournalEvent } from "../../core/event.ts";
import { decide, type Fields, isUser, type Meaning, type Party, text, wordOf } from "../../core/meaning.ts";
import { carry } from "../leftover.ts";
import { hasName, partiesOf } from "../parties.ts";
import {
  actor,
  authenticationDetails,
  deviceObject,
  endpoint,
  entity,
  group,
  httpRequest,
  isPerson,
  resource,
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
 * Writes the attributes of a class that not all events have. False, with nothing written and nothing taken
 * from the event, where the event lacks something that the class requires.
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
    const name = app?.label ?? app?.name ?? meaning.authentication?.service;
    // The service field itself is not taken: metadata.log_name needs it.
    const service = name ?? text(event, "service");
    if (service === undefined) return false;
    out.user = user(meaning.subject);
    out.service = { name: carry(name) ?? service.value, uid: carry(app?.id) };
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
    const { link } = meaning;
    const end = link && (link.to === managed ? link.from : link.to);
    // The schema has no attribute for the other end of a link.
    if (end !== undefined && hasName(end)) out.entity_result = entity(end, meaning.device);
    requested(out, meaning);
    surroundings(out, filling, meaning.actor);
    return true;
  },

  user_access(out, filling) {
    const { meaning } = filling;
    const account = accountOf(meaning, filling.row);
    if (account === undefined || meaning.privileges.length === 0) return false;
    out.user = user(account);
    out.privileges = meaning.privileges;
    const { device: on, object } = partiesOf(meaning);
    const thing = resource([on, object].find((party) => party !== account));
    if (thing) out.resources = [thing];
    requested(out, meaning);
    surroundings(out, filling, meaning.actor);
    return true;
  },

  group_management(out, filling) {
    const { meaning } = filling;
    const parties = partiesOf(meaning);
    const found = parties.group ?? parties.object;
    if (!hasName(found)) return false;
    const second = meaning.target === found ? meaning.associate : meaning.target;
    out.group = group(found);
    if (isUser(second) && hasName(second)) out.user = user(second);
    else if (second?.kind === "group") out.subgroup = group(second);
    else if (second !== found) out.resource = resource(second);
    if (meaning.privileges.length > 0) out.privileges = meaning.privileges;
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
    const about = meaning.subject === meaning.actor ? undefined : meaning.subject;
    const person = hasName(about) ? user(about) : undefined;
    if (from || person) out.evidences = [{ src_endpoint: from, user: person }];
    surroundings(out, filling, meaning.actor);
    return true;
  },

  device_config_state_change(out, filling) {
    const found = deviceObject(filling.meaning.device);
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
/** For findings whose changes name no status: created ones are new, closed ones resolved. */
const BY_ACTIVITY: Readonly<Record<string | number, { id: number; caption: string }>> = {
  1: NEW,
  3: RESOLVED,
};
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

/** The status of a finding is the last one in its changes. It is not the outcome of a request. */
function findingStatus(out: Fields, { row, meaning }: Filling): void {
  const isStatus = (change: unknown) => wordOf(text(change, "field")) === "status";
  const changes = meaning.changes ? decide(meaning.changes) : [];
  const to = wordOf(text(changes.findLast(isStatus), "to"));
  const known = FINDING_STATUS.get(to) ?? BY_ACTIVITY[row.activity] ?? { id: 0, caption: "Unknown" };
  out.status_id = known.id;
  out.status = known.caption;
}

/** Where the request came from, for the classes that know of requests. */
function requested(out: Fields, meaning: Meaning): void {
  const { origin } = meaning;
  if (origin === undefined) return;
  out.src_endpoint = endpoint(origin);
  out.http_request = httpRequest(origin);
}

function surroundings(out: Fields, filling: Filling, acting: Party | undefined): void {
  if (acting) out.actor = actor(acting);
  if (filling.meaning.device) out.device = deviceObject(filling.meaning.device);
}

/**
 * The changed account: the user that the event is about. The actor only where people make such changes to
 * themselves; else an administrator who suspends somebody would look suspended.
 */
function accountOf(meaning: Meaning, row: Row): Party | undefined {
  const { user: found } = partiesOf(meaning);
  if (hasName(found)) return found;
  if (hasName(meaning.target) && meaning.target.kind === "other") return meaning.target;
  if (!row.self) return undefined;
  const self = isUser(meaning.subject) ? meaning.subject : meaning.actor;
  return isUser(self) && hasName(self) ? self : undefined;
}

/**
 * The managed entity of an event without a resource: the application, else the device, else the associated
 * party. Settings that name nothing belong to the organization. A link never does.
 */
function managedOtherwise({ meaning, event, row }: Filling): Party | undefined {
  const { application: app, device: on, associate } = meaning;
  if (associate) return associate;
  if (app) return { kind: "application", id: app.id, name: app.name ?? app.label };
  if (on) return { kind: "device", id: on.id, name: on.hostname, label: on.name };
  if (meaning.link) return undefined;
  const owner = text(event, "organization");
  const wide = row.activity === 3 || row.activity === 8 || row.activity === 9;
  return wide && owner ? { kind: "organization", id: owner } : undefined;
}
