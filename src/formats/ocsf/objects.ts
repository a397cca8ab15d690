import { isIP } from "node:net";
import type { Authentication, Device, Fields, Item, Leaf, Meaning, Party } from "../../core/meaning.ts";
import { carry } from "../leftover.ts";
import { isEmail } from "../wording.ts";

/**
 * The objects of OCSF, made from parts of a meaning. Each is complete by the schema, or undefined. They are
 * written as whole literals: a member that is undefined is not there, for JSON.stringify leaves it out.
 */

export function hasName(party: Party | undefined): party is Party {
  return party !== undefined && (party.id ?? party.name ?? party.email ?? party.label) !== undefined;
}

export function isPerson(party: Party | undefined): party is Party {
  return hasName(party) && party.kind !== "device" && party.kind !== "group" && party.kind !== "application";
}

/** Needs `hasName`. */
export function user(party: Party): Fields {
  const type = userType(party);
  return {
    name: carry(party.name ?? party.email ?? (party.id ? undefined : party.label)),
    uid: carry(party.id),
    uid_alt: carry(party.otherId),
    display_name: carry(party.label),
    email_addr: party.email && isEmail(party.email.value) ? carry(party.email) : undefined,
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
  return type?.value.toLowerCase() === "system" ? SYSTEM : undefined;
}

/** A caption; the event's own word for it is carried over where it is the same but for case. */
function matching(caption: string, word: Leaf | undefined): string {
  if (word?.value.toLowerCase() === caption.toLowerCase()) word.holder[word.key] = undefined;
  return caption;
}

export function actor(party: Party | undefined): Fields | undefined {
  return hasName(party) ? { user: user(party) } : undefined;
}

export function device(found: Device | undefined): Fields | undefined {
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
    os: operatingSystem(found.os, found.osVersion),
  };
}

/** Where the request came from: an address is what makes it an endpoint. */
export function endpoint(origin: Meaning["origin"]): Fields | undefined {
  const ip = validIp(origin?.ip);
  if (origin === undefined || ip === undefined) return undefined;
  return {
    ip: carry(ip),
    location: location(origin.place),
    os: operatingSystem(origin.userAgent?.osName, origin.userAgent?.osVersion),
  };
}

function validIp(leaf: Leaf | undefined): Leaf | undefined {
  return leaf && leaf.value.length <= 40 && isIP(leaf.value) !== 0 ? leaf : undefined;
}

function location(place: NonNullable<Meaning["origin"]>["place"]): Fields | undefined {
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
  const known = SYSTEMS.find(([pattern]) => pattern.test(name.value));
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
    type: type.id === 99 ? type.caption : matching(type.caption, party.type),
    user: isUser ? user(party) : undefined,
    device: kind === "device" ? device(isSame(found, party) ? found : deviceOf(party)) : undefined,
  };
}

function otherType({ kind, type }: Party): { id: number; caption: string } {
  if (type) return { id: 99, caption: carry(type)! };
  return kind === "application" ? { id: 99, caption: "Application" } : { id: 0, caption: "Unknown" };
}

function isSame(found: Device | undefined, party: Party): boolean {
  return found?.id !== undefined && found.id.value === party.id?.value;
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

const PROTOCOLS = {
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
  const logon = auth.logonType && LOGON_TYPES[auth.logonType.value];
  if (logon === undefined) return;
  out.logon_type_id = carry(auth.logonType);
  out.logon_type = logon;
}

function factor(found: Authentication["factors"][number]): Fields {
  if (found.kind === "other")
    return { factor_type_id: 99, factor_type: found.from ? carry(found.from) : found.name };
  const { id, caption } = FACTORS[found.kind];
  return { factor_type_id: id, factor_type: caption, is_totp: found.kind === "totp" ? true : undefined };
}
