import { isIP } from "node:net";
import {
  type Authentication,
  type Carried,
  type Device,
  decide,
  type Factor,
  type Fields,
  type Item,
  type Leaf,
  type Meaning,
  type Network,
  type Party,
  type Place,
  same,
  test,
  wordOf,
} from "../../core/meaning.ts";
import { carry } from "../leftover.ts";
import { hasName } from "../parties.ts";
import { agentText, isEmail } from "../wording.ts";

/*
 * The objects of OCSF, made from parts of a meaning. Each is valid by the schema, or undefined. They are
 * written as whole literals: JSON.stringify leaves members out that are undefined.
 */

export function isPerson(party: Party | undefined): party is Party {
  return hasName(party) && !/^(device|group|device_group|application)$/.test(party.kind);
}

/** Needs `hasName`. */
export function user(party: Party): Fields {
  const type = userType(party);
  return {
    name: carry(party.name ?? party.email ?? (party.id ? undefined : party.label)),
    uid: carry(party.id),
    uid_alt: carry(party.otherId),
    display_name: carry(party.label),
    email_addr: test(party.email, isEmail) ? carry(party.email) : undefined,
    type_id: type?.id,
    type: type && matching(type.caption, party.type),
    ldap_person: party.distinguishedName && { ldap_dn: carry(party.distinguishedName) },
  };
}

const USER = { id: 1, caption: "User" };
const ADMIN = { id: 2, caption: "Admin" };
const SYSTEM = { id: 3, caption: "System" };

function userType({ kind, type }: Party) {
  if (kind === "user") return USER;
  if (kind === "admin") return ADMIN;
  return wordOf(type) === "system" ? SYSTEM : undefined;
}

/** A caption. The event's own word is carried over where it differs only in case. */
function matching(caption: string, word: Leaf | undefined): string {
  if (word && wordOf(word) === caption.toLowerCase()) word.holder[word.key] = undefined;
  return caption;
}

export function actor(party: Party | undefined): Fields | undefined {
  return hasName(party) ? { user: user(party) } : undefined;
}

export function deviceObject(found: Device | undefined): Fields | undefined {
  if (found === undefined) return undefined;
  const ip = validIp(found.ip);
  if ((found.id ?? found.hostname ?? found.name ?? ip) === undefined) return undefined;
  return {
    type_id: 0,
    type: "Unknown",
    uid: carry(found.id),
    hostname: carry(found.hostname),
    name: carry(found.name),
    ip: carry(ip),
    location: location(found.place),
    os: operatingSystem(found.os, found.osVersion),
    is_managed: found.managed,
  };
}

/** Where the request came from. Without an address there is no endpoint. */
export function endpoint(origin: Meaning["origin"]): Fields | undefined {
  const ip = validIp(origin?.ip);
  if (origin === undefined || ip === undefined) return undefined;
  return {
    ip: carry(ip),
    location: location(origin.place),
    autonomous_system: autonomousSystem(origin.network),
    os: operatingSystem(origin.userAgent?.osName, origin.userAgent?.osVersion),
  };
}

function validIp(leaf: Leaf | undefined): Leaf | undefined {
  return test(leaf, (value) => value.length <= 40 && isIP(value) !== 0) ? leaf : undefined;
}

function autonomousSystem(network: Network | undefined): Fields | undefined {
  const number = test(network?.number, Number.isSafeInteger) ? network?.number : undefined;
  if ((number ?? network?.organization) === undefined) return undefined;
  return { number: carry(number), name: carry(network?.organization) };
}

/** The user agent as text. A parsed one stays in the leftover too: the text has only browser and version. */
export function httpRequest(origin: Meaning["origin"]): Fields | undefined {
  const agent = origin?.userAgent;
  if (agent?.original) return { user_agent: carry(agent.original) };
  const text = agent && agentText(agent);
  return text === undefined ? undefined : { user_agent: text };
}

function location(place: Place | undefined): Fields | undefined {
  if (place === undefined) return undefined;
  if ((place.city ?? place.country ?? place.postalCode ?? place.regionCode) === undefined) return undefined;
  return {
    city: carry(place.city),
    country: carry(place.country),
    region: carry(place.regionCode),
    postal_code: carry(place.postalCode),
    lat: carry(place.latitude),
    long: carry(place.longitude),
  };
}

const SYSTEMS: readonly (readonly [pattern: RegExp, id: number, caption: string])[] = [
  [/windows (mobile|phone)/i, 101, "Windows Mobile"],
  [/windows/i, 100, "Windows"],
  [/ipados/i, 302, "iPadOS"],
  [/\bios\b/i, 301, "iOS"],
  [/mac ?os|darwin/i, 300, "macOS"],
  [/android/i, 201, "Android"],
  [/linux|ubuntu|fedora|debian|centos|red ?hat|suse|amazon|rocky/i, 200, "Linux"],
];

function operatingSystem(name: Leaf | undefined, version: Leaf | undefined): Fields | undefined {
  if (name === undefined) return undefined;
  const known = SYSTEMS.find(([pattern]) => test(name, (value) => pattern.test(value)));
  return {
    type_id: known?.[1] ?? 0,
    type: known?.[2] ?? "Unknown",
    name: carry(name),
    version: carry(version),
  };
}

export function group(party: Party): Fields {
  return {
    uid: carry(party.id),
    name: carry(party.name ?? party.label ?? (party.id ? undefined : party.email)),
    type: carry(party.type),
  };
}

const ENTITY_TYPES = {
  device: { id: 1, caption: "Device" },
  user: { id: 2, caption: "User" },
  admin: { id: 2, caption: "User" },
  group: { id: 3, caption: "Group" },
  device_group: { id: 3, caption: "Group" },
  organization: { id: 4, caption: "Organization" },
  policy: { id: 5, caption: "Policy" },
} as const;

/** Needs `hasName`. */
export function entity(party: Party, found: Device | undefined): Fields {
  const { kind } = party;
  const type = kind === "other" || kind === "application" ? otherType(party) : ENTITY_TYPES[kind];
  const isUser = kind === "user" || kind === "admin";
  return {
    uid: carry(party.id),
    name: carry(party.name ?? party.label ?? party.email),
    type_id: type.id,
    type: type.id === 99 ? type.caption : matching(type.caption as string, party.type),
    user: isUser ? user(party) : undefined,
    device: kind === "device" ? deviceObject(isSame(found, party) ? found : deviceOf(party)) : undefined,
  };
}

function otherType({ kind, type }: Party): { id: number; caption: string | Carried } {
  if (type) return { id: 99, caption: carry(type)! };
  return kind === "application" ? { id: 99, caption: "Application" } : { id: 0, caption: "Unknown" };
}

function isSame(found: Device | undefined, party: Party): boolean {
  return same(found?.id, party.id);
}

function deviceOf(party: Party): Device {
  return { id: party.id, hostname: party.name, name: party.label };
}

/** Undefined without a name or an id. */
export function webResource(item: Item | undefined): Fields | undefined {
  if (item === undefined || (item.id ?? item.name) === undefined) return undefined;
  return {
    uid: carry(item.id),
    name: carry(item.name),
    desc: carry(item.description),
    type: carry(item.type),
  };
}

/** The thing that access was granted to. Undefined without a name or an id. */
export function resource(party: Party | undefined): Fields | undefined {
  const name = party?.name ?? party?.label;
  if (party === undefined || (party.id ?? name) === undefined) return undefined;
  return { uid: carry(party.id), name: carry(name), type: carry(party.type) };
}

const PROTOCOLS = {
  openid: { id: 4, caption: "OpenID" },
  saml: { id: 5, caption: "SAML" },
  radius: { id: 10, caption: "RADIUS" },
  ldap: { id: 12, caption: "LDAP" },
} as const;
const FACTORS = {
  password: { id: 11, caption: "Password" },
  otp: { id: 7, caption: "OTP" },
  totp: { id: 7, caption: "OTP" },
  push: { id: 5, caption: "Push Notification" },
  webauthn: { id: 10, caption: "WebAuthn" },
} as const;
const LOGON_TYPES: Readonly<Record<number, string>> = {
  2: "Interactive",
  3: "Network",
  4: "Batch",
  5: "OS Service",
  7: "Unlock",
  8: "Network Cleartext",
  9: "New Credentials",
  10: "Remote Interactive",
  11: "Cached Interactive",
};

export function authenticationDetails(out: Fields, auth: Authentication | undefined): void {
  if (auth === undefined) return;
  out.is_mfa = carry(auth.mfa);
  if (auth.protocol) {
    out.auth_protocol_id = PROTOCOLS[auth.protocol].id;
    out.auth_protocol = PROTOCOLS[auth.protocol].caption;
  }
  if (auth.factors.length > 0) out.auth_factors = auth.factors.map(factor);
  const logon = auth.logonType && LOGON_TYPES[decide(auth.logonType)];
  if (logon === undefined) return;
  out.logon_type_id = carry(auth.logonType);
  out.logon_type = logon;
}

function factor(found: Factor): Fields {
  if (found.kind === "other")
    return { factor_type_id: 99, factor_type: found.from ? carry(found.from) : found.name };
  const { id, caption } = FACTORS[found.kind];
  return { factor_type_id: id, factor_type: caption, is_totp: found.kind === "totp" ? true : undefined };
}
