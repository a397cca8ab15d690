import { isIP } from "node:net";
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

/** The field sets of ECS, made from parts of a meaning; members that are undefined are not there. */

/** `user` acts, or logs in; `user.target` and `group` are acted upon. */
export function people(out: Fields, meaning: Meaning, isLogin: boolean): void {
  const { actor, subject, target } = meaning;
  const acting = isLogin ? (subject ?? actor) : (actor ?? subject);
  const onUser = isUser(target) && target !== acting;
  if (acting || onUser) out.user = { ...userFields(acting), target: onUser ? userFields(target) : undefined };
  if (target?.kind === "group")
    out.group = { id: target.id?.value, name: (target.name ?? target.label ?? target.email)?.value };
}

function isUser(party: Party | undefined): party is Party {
  return party?.kind === "user" || party?.kind === "admin";
}

function userFields(party: Party | undefined): Fields | undefined {
  if (party === undefined) return undefined;
  return {
    id: party.id?.value,
    name: (party.name ?? party.email)?.value,
    email: party.email?.value,
    full_name: party.label?.value,
    roles: party.kind === "admin" ? ["admin"] : undefined,
  };
}

/** The requester is the source and the client; a device is the host. */
export function places(out: Fields, { origin, device }: Meaning): void {
  if (origin?.ip) {
    out.source = sourceFields(origin, origin.ip);
    out.client = out.source;
  }
  if (device) out.host = hostFields(device);
  if (origin?.userAgent) out.user_agent = agentFields(origin.userAgent);
}

function sourceFields({ place }: Origin, ip: Leaf): Fields {
  return { address: ip.value, ip: isAddress(ip) ? ip.value : undefined, geo: place && geoFields(place) };
}

function geoFields(place: NonNullable<Origin["place"]>): Fields | undefined {
  const { country, regionCode, latitude, longitude } = place;
  const onEarth = latitude && longitude && Math.abs(latitude.value) <= 90 && Math.abs(longitude.value) <= 180;
  return unlessEmpty({
    city_name: place.city?.value,
    country_iso_code: country?.value,
    region_iso_code: country && regionCode ? `${country.value}-${regionCode.value}` : undefined,
    region_name: place.regionName?.value,
    continent_code: place.continentCode?.value,
    postal_code: place.postalCode?.value,
    timezone: place.timezone?.value,
    location: onEarth ? { lat: latitude.value, lon: longitude.value } : undefined,
  });
}

/** Elasticsearch knows no zones in addresses. */
function isAddress(ip: Leaf): boolean {
  return isIP(ip.value) !== 0 && !ip.value.includes("%");
}

function hostFields(device: Device): Fields | undefined {
  return unlessEmpty({
    id: device.id?.value,
    hostname: device.hostname?.value,
    name: (device.name ?? device.hostname)?.value,
    ip: device.ip && isAddress(device.ip) ? [device.ip.value] : undefined,
    os: device.os && { full: device.os.value, version: device.osVersion?.value },
  });
}

function agentFields(agent: NonNullable<Origin["userAgent"]>): Fields | undefined {
  return unlessEmpty({
    original: agent.original?.value,
    name: agent.name?.value,
    version: agent.version?.value,
    device: agent.deviceName && { name: agent.deviceName.value },
    os: unlessEmpty({ name: agent.osName?.value, version: agent.osVersion?.value }),
  });
}

/** Applications, packages, files, processes, messages. */
export function things(out: Fields, { service, event, meaning }: Described): void {
  const { application: app, item, outcome, processName, message } = meaning;
  if (app && service === "software")
    out.package = unlessEmpty({ name: app.name?.value, version: app.version?.value, path: app.path?.value });
  else if (app)
    out.service = {
      target: { id: app.id?.value, name: (app.name ?? app.label)?.value, version: app.version?.value },
    };
  if (item && service === "object_storage") out.file = { name: item.name?.value, uid: item.id?.value };
  if (processName) out.process = { name: processName.value };
  if (message) out.message = message.value;
  if (outcome.is === "failure" && outcome.reason)
    out.error = { message: outcome.reason.value, code: outcome.code?.value };
  const correlation = text(event.correlation, "id");
  if (correlation) out.trace = { id: correlation.value };
}

/** Everything that one searches for across fields. */
export function related(out: Fields, { actor, subject, target, associate, device, origin }: Meaning): void {
  const user: string[] = [];
  addNames(user, actor);
  if (subject !== actor) addNames(user, subject);
  if (isUser(target)) addNames(user, target);
  if (isUser(associate)) addNames(user, associate);
  const hosts: string[] = [];
  add(hosts, device?.hostname);
  add(hosts, device?.name);
  const ip: string[] = [];
  if (origin?.ip && isAddress(origin.ip)) add(ip, origin.ip);
  if (device?.ip && isAddress(device.ip)) add(ip, device.ip);
  out.related = unlessEmpty({
    user: user.length > 0 ? user : undefined,
    hosts: hosts.length > 0 ? hosts : undefined,
    ip: ip.length > 0 ? ip : undefined,
  });
}

function addNames(list: string[], party: Party | undefined): void {
  if (party === undefined || party.kind === "device" || party.kind === "group") return;
  add(list, party.id);
  add(list, party.name);
  add(list, party.email);
}

function add(list: string[], leaf: Leaf | undefined): void {
  if (leaf !== undefined && !list.includes(leaf.value)) list.push(leaf.value);
}

function unlessEmpty(fields: Fields): Fields | undefined {
  for (const key in fields) if (fields[key] !== undefined) return fields;
  return undefined;
}
