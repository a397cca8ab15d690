import { isIP } from "node:net";
import type { Authentication, Device, Fields, Item, Leaf, Meaning, Party } from "../../core/meaning.ts";
import { put } from "../leftover.ts";
import { isEmail } from "../wording.ts";

/** The objects of OCSF, made from parts of a meaning. Each is complete by the schema, or undefined. */

export function hasName(party: Party | undefined): party is Party {
  return party !== undefined && (party.id ?? party.name ?? party.email ?? party.label) !== undefined;
}

export function isPerson(party: Party | undefined): party is Party {
  return hasName(party) && party.kind !== "device" && party.kind !== "group" && party.kind !== "application";
}

/** Needs `hasName`. */
export function user(party: Party): Fields {
  const made: Fields = {};
  put(made, "name", party.name ?? party.email ?? (party.id ? undefined : party.label));
  put(made, "uid", party.id);
  put(made, "uid_alt", party.otherId);
  put(made, "display_name", party.label);
  if (party.email && isEmail(party.email.value)) put(made, "email_addr", party.email);
  if (party.kind === "user") enumerated(made, "type", 1, "User", party.type);
  if (party.kind === "admin") enumerated(made, "type", 2, "Admin", party.type);
  if (party.type?.value.toLowerCase() === "system") enumerated(made, "type", 3, "System", party.type);
  if (party.distinguishedName) {
    const person: Fields = {};
    put(person, "ldap_dn", party.distinguishedName);
    made.ldap_person = person;
  }
  return made;
}

/** An enum with its caption; the event's own word is carried over where it is the same but for case. */
function enumerated(target: Fields, key: string, id: number, caption: string, word: Leaf | undefined): void {
  target[`${key}_id`] = id;
  target[key] = caption;
  if (word?.value.toLowerCase() === caption.toLowerCase()) word.holder[word.key] = undefined;
}

export function actor(party: Party | undefined): Fields | undefined {
  return hasName(party) ? { user: user(party) } : undefined;
}

export function device(found: Device | undefined): Fields | undefined {
  if (found === undefined) return undefined;
  const ip = validIp(found.ip);
  if ((found.id ?? found.hostname ?? found.name ?? ip) === undefined) return undefined;
  const made: Fields = { type_id: 0, type: "Unknown" };
  put(made, "uid", found.id);
  put(made, "hostname", found.hostname);
  put(made, "name", found.name);
  put(made, "ip", ip);
  put(made, "model", found.model);
  put(made, "vendor_name", found.maker);
  const os = operatingSystem(found.os, found.osVersion);
  if (os) made.os = os;
  return made;
}

/** Where the request came from: an address is what makes it an endpoint. */
export function endpoint(origin: Meaning["origin"]): Fields | undefined {
  const ip = validIp(origin?.ip);
  if (origin === undefined || ip === undefined) return undefined;
  const made: Fields = {};
  put(made, "ip", ip);
  const place = location(origin.place);
  if (place) made.location = place;
  const os = operatingSystem(origin.userAgent?.osName, origin.userAgent?.osVersion);
  if (os) made.os = os;
  return made;
}

function validIp(leaf: Leaf | undefined): Leaf | undefined {
  return leaf && leaf.value.length <= 40 && isIP(leaf.value) !== 0 ? leaf : undefined;
}

function location(place: NonNullable<Meaning["origin"]>["place"]): Fields | undefined {
  if (place === undefined) return undefined;
  if ((place.city ?? place.country ?? place.postalCode ?? place.regionCode) === undefined) return undefined;
  const made: Fields = {};
  put(made, "city", place.city);
  put(made, "country", place.country);
  put(made, "region", place.regionCode);
  put(made, "postal_code", place.postalCode);
  put(made, "lat", place.latitude);
  put(made, "long", place.longitude);
  return made;
}

const SYSTEMS: readonly (readonly [RegExp, number, string])[] = [
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
  const made: Fields = { type_id: known?.[1] ?? 0, type: known?.[2] ?? "Unknown" };
  put(made, "name", name);
  put(made, "version", version);
  return made;
}

export function group(party: Party): Fields {
  const made: Fields = {};
  put(made, "uid", party.id);
  put(made, "name", party.name ?? party.label ?? (party.id ? undefined : party.email));
  put(made, "type", party.type);
  return made;
}

/** Needs `hasName`. */
export function entity(party: Party, found: Device | undefined): Fields {
  const made: Fields = {};
  put(made, "uid", party.id);
  put(made, "name", party.name ?? party.label ?? party.email);
  switch (party.kind) {
    case "user":
    case "admin":
      made.user = user(party);
      enumerated(made, "type", 2, "User", party.type);
      break;
    case "device":
      enumerated(made, "type", 1, "Device", party.type);
      made.device = device(found?.id?.value === party.id?.value ? found : deviceOf(party));
      break;
    case "group":
      enumerated(made, "type", 3, "Group", party.type);
      break;
    case "organization":
      enumerated(made, "type", 4, "Organization", party.type);
      break;
    case "policy":
      enumerated(made, "type", 5, "Policy", party.type);
      break;
    default:
      made.type_id = party.type || party.kind === "application" ? 99 : 0;
      if (party.type) put(made, "type", party.type);
      else made.type = party.kind === "application" ? "Application" : "Unknown";
  }
  return made;
}

function deviceOf(party: Party): Device {
  return { id: party.id, hostname: party.name, name: party.label };
}

/** Undefined without a name or an id. */
export function webResource(item: Item | undefined): Fields | undefined {
  if ((item?.id ?? item?.name) === undefined) return undefined;
  const made: Fields = {};
  put(made, "uid", item?.id);
  put(made, "name", item?.name);
  put(made, "desc", item?.description);
  put(made, "type", item?.type);
  return made;
}

const PROTOCOLS = { saml: [5, "SAML"], radius: [10, "RADIUS"], ldap: [12, "LDAP"] } as const;
const FACTORS = {
  password: [11, "Password"],
  otp: [7, "OTP"],
  totp: [7, "OTP"],
  push: [5, "Push Notification"],
  webauthn: [10, "WebAuthn"],
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

export function authenticationDetails(target: Fields, auth: Authentication | undefined): void {
  if (auth === undefined) return;
  put(target, "is_mfa", auth.mfa);
  if (auth.protocol) [target.auth_protocol_id, target.auth_protocol] = PROTOCOLS[auth.protocol];
  if (auth.factors.length > 0) target.auth_factors = auth.factors.map(factor);
  const logon = auth.logonType && LOGON_TYPES[auth.logonType.value];
  if (logon) {
    put(target, "logon_type_id", auth.logonType);
    target.logon_type = logon;
  }
}

function factor(found: Authentication["factors"][number]): Fields {
  if (found.kind === "other") {
    const made: Fields = { factor_type_id: 99, factor_type: found.name };
    put(made, "factor_type", found.from);
    return made;
  }
  const [id, caption] = FACTORS[found.kind];
  return {
    factor_type_id: id,
    factor_type: caption,
    ...(found.kind === "totp" ? { is_totp: true } : {}),
  };
}
