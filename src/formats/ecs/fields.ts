import { isIP } from "node:net";
import {
  type Carried,
  type Described,
  type Device,
  type Fields,
  isUser,
  type Leaf,
  type Meaning,
  type Origin,
  type Party,
  type Place,
  same,
  test,
  text,
  type UserAgent,
} from "../../core/meaning.ts";
import type { Parties } from "../parties.ts";

/* The field sets of ECS, made from parts of a meaning. JSON.stringify leaves members out that are undefined. */

/** `user` acts, or logs in; `user.target` and `group` are acted upon. */
export function people(out: Fields, meaning: Meaning, parties: Parties, isLogin: boolean): void {
  const { actor, subject } = meaning;
  const acting = isLogin ? (subject ?? actor) : (actor ?? subject);
  // Without an actor, the user that the event is about is both.
  const isSelf = parties.user === (isLogin ? acting : actor);
  const target = isSelf ? undefined : parties.user;
  if (acting || target) out.user = { ...userFields(acting), target: userFields(target) };
  const { group } = parties;
  if (group) out.group = { id: group.id?.value, name: (group.name ?? group.label ?? group.email)?.value };
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
export function places(out: Fields, { origin, device }: Meaning, parties: Parties): void {
  if (origin?.ip) {
    out.source = sourceFields(origin, origin.ip);
    out.client = out.source;
  }
  const host = device ?? deviceOf(parties.device);
  if (host) out.host = hostFields(host);
  if (origin?.userAgent) out.user_agent = agentFields(origin.userAgent);
}

function deviceOf(party: Party | undefined): Device | undefined {
  return party && { id: party.id, hostname: party.name, name: party.label };
}

function sourceFields({ place, network }: Origin, ip: Leaf): Fields {
  return {
    address: ip.value,
    ip: isAddress(ip) ? ip.value : undefined,
    geo: place && geoFields(place),
    as:
      network &&
      unlessEmpty({
        number: test(network.number, Number.isSafeInteger) ? network.number?.value : undefined,
        organization: network.organization && { name: network.organization.value },
      }),
  };
}

function geoFields(place: Place): Fields | undefined {
  const { country, regionCode, latitude, longitude } = place;
  const onEarth =
    test(latitude, (value) => Math.abs(value) <= 90) && test(longitude, (value) => Math.abs(value) <= 180);
  return unlessEmpty({
    city_name: place.city?.value,
    country_iso_code: country?.value,
    region_iso_code: country && regionCode ? `${country.value}-${regionCode.value}` : undefined,
    region_name: place.regionName?.value,
    continent_code: place.continentCode?.value,
    postal_code: place.postalCode?.value,
    timezone: place.timezone?.value,
    location: onEarth ? { lat: latitude?.value, lon: longitude?.value } : undefined,
  });
}

/** Elasticsearch does not accept zones in addresses. */
function isAddress(ip: Leaf): boolean {
  return test(ip, (value) => isIP(value) !== 0 && !value.includes("%"));
}

function hostFields(device: Device): Fields | undefined {
  return unlessEmpty({
    id: device.id?.value,
    hostname: device.hostname?.value,
    name: (device.name ?? device.hostname)?.value,
    ip: device.ip && isAddress(device.ip) ? [device.ip.value] : undefined,
    geo: device.place && geoFields(device.place),
    os: device.os && { full: device.os.value, version: device.osVersion?.value },
  });
}

function agentFields(agent: UserAgent): Fields | undefined {
  return unlessEmpty({
    original: agent.original?.value,
    name: agent.name?.value,
    version: agent.version?.value,
    device: agent.deviceName && { name: agent.deviceName.value },
    os: unlessEmpty({
      name: agent.osName?.value,
      version: agent.osVersion?.value,
      full: agent.osFull?.value,
    }),
  });
}

/** Applications, packages, files, processes, messages. */
export function things(out: Fields, { service, event, meaning }: Described, { object }: Parties): void {
  const { application: app, item, outcome, processName, message } = meaning;
  if (app && service === "software")
    out.package = unlessEmpty({ name: app.name?.value, version: app.version?.value, path: app.path?.value });
  else if (app)
    out.service = {
      target: {
        id: app.id?.value,
        name: (app.label ?? app.name)?.value,
        // Where there is a label, the name is the type of the connector.
        type: app.label && app.name?.value,
        version: app.version?.value,
      },
    };
  else if (object?.kind === "application")
    out.service = {
      target: { id: object.id?.value, name: (object.label ?? object.name ?? object.email)?.value },
    };
  if (item && service === "object_storage") out.file = { name: item.name?.value, uid: item.id?.value };
  if (processName) out.process = { name: processName.value };
  if (message) out.message = message.value;
  if (outcome.is === "failure" && outcome.reason)
    out.error = { message: outcome.reason.value, code: outcome.code?.value };
  const correlation = text(event.correlation, "id");
  if (correlation) out.trace = { id: correlation.value };
}

/** The values that people search for across fields. */
export function related(out: Fields, meaning: Meaning, parties: Parties): void {
  const { actor, subject, target, associate, device, origin } = meaning;
  const user: Leaf[] = [];
  addNames(user, actor);
  if (subject !== actor) addNames(user, subject);
  if (isUser(target)) addNames(user, target);
  if (isUser(associate)) addNames(user, associate);
  const hosts: Leaf[] = [];
  add(hosts, device?.hostname);
  add(hosts, device?.name);
  add(hosts, parties.device?.name);
  const ip: Leaf[] = [];
  if (origin?.ip && isAddress(origin.ip)) add(ip, origin.ip);
  if (device?.ip && isAddress(device.ip)) add(ip, device.ip);
  out.related = unlessEmpty({
    user: valuesOf(user),
    hosts: valuesOf(hosts),
    ip: valuesOf(ip),
  });
}

function addNames(list: Leaf[], party: Party | undefined): void {
  if (party === undefined || /^(device|group|device_group)$/.test(party.kind)) return;
  add(list, party.id);
  add(list, party.name);
  add(list, party.email);
}

function add(list: Leaf[], leaf: Leaf | undefined): void {
  if (leaf !== undefined && !list.some((known) => same(known, leaf))) list.push(leaf);
}

function valuesOf(list: readonly Leaf[]): Carried[] | undefined {
  return list.length > 0 ? list.map((leaf) => leaf.value) : undefined;
}

function unlessEmpty(fields: Fields): Fields | undefined {
  for (const key in fields) if (fields[key] !== undefined) return fields;
  return undefined;
}
