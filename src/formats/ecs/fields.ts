import { isIP } from "node:net";
import type { JournalEvent } from "../../core/event.ts";
import {
  type Described,
  type Device,
  type Fields,
  type Leaf,
  type Meaning,
  type Origin,
  type Party,
  text,
} from "../../core/meaning.ts";
import { ecsRowOf } from "./schema-9.4.0.ts";

/** `user` acts, or logs in; `user.target` and `group` are acted upon. */
export function people(source: JournalEvent, meaning: Meaning): Fields {
  const out: Fields = {};
  const login = ecsRowOf(source.eventType).category.includes("authentication");
  const acting = login ? (meaning.subject ?? meaning.actor) : (meaning.actor ?? meaning.subject);
  const user = userFields(acting) ?? {};
  const target = meaning.target;
  if (isUser(target) && target !== acting) user.target = userFields(target);
  if (Object.keys(user).length > 0) out.user = user;
  if (target?.kind === "group") {
    const group: Fields = {};
    set(group, "id", target.id);
    set(group, "name", target.name ?? target.label ?? target.email);
    out.group = group;
  }
  return out;
}

function isUser(party: Party | undefined): party is Party {
  return party?.kind === "user" || party?.kind === "admin";
}

function userFields(party: Party | undefined): Fields | undefined {
  if (party === undefined) return undefined;
  const user: Fields = {};
  set(user, "id", party.id);
  set(user, "name", party.name ?? party.email);
  set(user, "email", party.email);
  set(user, "full_name", party.label);
  if (party.kind === "admin") user.roles = ["admin"];
  return user;
}

/** The requester is the source and the client; a device is the host. */
export function places(meaning: Meaning): Fields {
  const out: Fields = {};
  const from = sourceFields(meaning.origin);
  if (from) {
    out.source = from;
    out.client = from;
  }
  const host = hostFields(meaning.device);
  if (host) out.host = host;
  const agent = agentFields(meaning.origin);
  if (agent) out.user_agent = agent;
  return out;
}

function sourceFields(origin: Origin | undefined): Fields | undefined {
  if (origin?.ip === undefined) return undefined;
  const out: Fields = {};
  set(out, "address", origin.ip);
  if (isAddress(origin.ip)) set(out, "ip", origin.ip);
  const place = origin.place;
  if (place === undefined) return out;
  const geo: Fields = {};
  set(geo, "city_name", place.city);
  set(geo, "country_iso_code", place.country);
  set(geo, "region_name", place.regionName);
  set(geo, "continent_code", place.continentCode);
  set(geo, "postal_code", place.postalCode);
  set(geo, "timezone", place.timezone);
  if (place.country && place.regionCode)
    geo.region_iso_code = `${place.country.value}-${place.regionCode.value}`;
  if (onEarth(place.latitude, 90) && onEarth(place.longitude, 180))
    geo.location = { lat: place.latitude.value, lon: place.longitude.value };
  if (Object.keys(geo).length > 0) out.geo = geo;
  return out;
}

function onEarth(degrees: Leaf<number> | undefined, max: number): degrees is Leaf<number> {
  return degrees !== undefined && Math.abs(degrees.value) <= max;
}

/** Elasticsearch knows no zones in addresses. */
function isAddress(ip: Leaf): boolean {
  return isIP(ip.value) !== 0 && !ip.value.includes("%");
}

function hostFields(device: Device | undefined): Fields | undefined {
  if (device === undefined) return undefined;
  const out: Fields = {};
  set(out, "id", device.id);
  set(out, "hostname", device.hostname);
  set(out, "name", device.name ?? device.hostname);
  if (device.ip && isAddress(device.ip)) out.ip = [device.ip.value];
  if (device.os) {
    const os: Fields = {};
    set(os, "full", device.os);
    set(os, "version", device.osVersion);
    out.os = os;
  }
  return out;
}

function agentFields(origin: Origin | undefined): Fields | undefined {
  const agent = origin?.userAgent;
  if (agent === undefined) return undefined;
  const out: Fields = {};
  set(out, "original", agent.original);
  set(out, "name", agent.name);
  set(out, "version", agent.version);
  if (agent.deviceName) out.device = { name: agent.deviceName.value };
  const os: Fields = {};
  set(os, "name", agent.osName);
  set(os, "version", agent.osVersion);
  if (Object.keys(os).length > 0) out.os = os;
  return Object.keys(out).length > 0 ? out : undefined;
}

/** Applications, packages, files, processes, messages. */
export function things({ service, event, meaning }: Described): Fields {
  const out: Fields = {};
  const app = meaning.application;
  if (app) {
    const thing: Fields = {};
    set(thing, "name", app.name ?? app.label);
    set(thing, "version", app.version);
    if (service === "software") set(thing, "path", app.path);
    else set(thing, "id", app.id);
    if (service === "software") out.package = thing;
    else out.service = { target: thing };
  }
  if (service === "object_storage") {
    const file: Fields = {};
    set(file, "name", meaning.item?.name);
    set(file, "uid", meaning.item?.id);
    if (Object.keys(file).length > 0) out.file = file;
  }
  if (meaning.processName) out.process = { name: meaning.processName.value };
  set(out, "message", meaning.message);
  if (meaning.outcome.is === "failure" && meaning.outcome.reason) {
    const error: Fields = {};
    set(error, "message", meaning.outcome.reason);
    set(error, "code", meaning.outcome.code);
    out.error = error;
  }
  const correlation = text(event.correlation, "id");
  if (correlation) out.trace = { id: correlation.value };
  return out;
}

/** Everything that one searches for across fields. */
export function related(out: Fields, { actor, subject, target, associate, device, origin }: Meaning): void {
  const users = [actor, subject, target, associate]
    .filter((party) => party !== undefined && party.kind !== "device" && party.kind !== "group")
    .filter((party) => party !== target || isUser(target))
    .flatMap((party) => [party?.id?.value, party?.name?.value, party?.email?.value]);
  const hosts = [device?.hostname?.value, device?.name?.value];
  const ips = [origin?.ip, device?.ip].map((ip) => (ip && isAddress(ip) ? ip.value : undefined));
  const found: Fields = {};
  if (distinct(users).length > 0) found.user = distinct(users);
  if (distinct(hosts).length > 0) found.hosts = distinct(hosts);
  if (distinct(ips).length > 0) found.ip = distinct(ips);
  if (Object.keys(found).length > 0) out.related = found;
}

function distinct(values: readonly (string | undefined)[]): string[] {
  return [...new Set(values.filter((value) => value !== undefined))];
}

export function set(target: Fields, key: string, leaf: Leaf | undefined): void {
  if (leaf !== undefined) target[key] = leaf.value;
}
