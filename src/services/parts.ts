import {
  type Application,
  type Authentication,
  type Device,
  type FactorKind,
  type Fields,
  flag,
  isFields,
  type Leaf,
  type Meaning,
  number,
  type Origin,
  type Outcome,
  type Party,
  type PartyKind,
  type Place,
  text,
  type UserAgent,
} from "../core/meaning.ts";

/** What nearly every event says in the same words; a service's file adds and corrects. */
export function common(event: Fields): Meaning {
  return {
    actor: party(event.initiated_by),
    target: party(event.resource),
    associate: party(event.association),
    outcome: outcome(event),
    origin: origin(event),
    device: device(event.system),
    application: application(event.application),
    changes: changes(event),
    message: text(event, "message"),
  };
}

const KINDS: ReadonlyMap<string, PartyKind> = new Map([
  ["user", "user"],
  ["systemuser", "user"],
  ["system_user", "user"],
  ["admin", "admin"],
  ["administrator", "admin"],
  ["group", "group"],
  ["user_group", "group"],
  ["system_group", "group"],
  ["system", "device"],
  ["device", "device"],
  ["organization", "organization"],
  ["policy", "policy"],
  ["authnpolicy", "policy"],
  ["application", "application"],
]);

/** Undefined for anything that names nobody. `kind` is what it is taken for where it does not say. */
export function party(value: unknown, kind: PartyKind = "other"): Party | undefined {
  if (!isFields(value)) return undefined;
  const id = text(value, "id") ?? text(value, "object_id");
  const userId = text(value, "user_id");
  const name = text(value, "username") ?? text(value, "name") ?? text(value, "hostname");
  const email = text(value, "email") ?? text(value, "recipient_email");
  const label = text(value, "displayName");
  if ((id ?? userId ?? name ?? email ?? label) === undefined) return undefined;
  const type = text(value, "type");
  return {
    kind: kindOf(value, type) ?? kind,
    type,
    id: id ?? userId,
    otherId: id === undefined ? undefined : userId,
    name,
    email,
    label,
  };
}

function kindOf(value: Fields, type: Leaf | undefined): PartyKind | undefined {
  const kind = type && KINDS.get(type.value.toLowerCase());
  if (value.administrator === true && (kind === undefined || kind === "user")) return "admin";
  return kind;
}

/** Whoever the event's own `username` names, with what `known` adds where it does not speak of somebody else. */
export function named(event: Fields, known: Party | undefined, key = "username"): Party | undefined {
  const name = text(event, key);
  if (name === undefined) return known;
  if (known === undefined) return { kind: "user", name };
  if (known.name === undefined) return { ...known, name };
  return known.name.value.toLowerCase() === name.value.toLowerCase() ? known : { kind: "user", name };
}

/** Absent success is unknown, never failure. */
export function outcome(event: Fields): Outcome {
  const success = flag(event, "success") ?? spokenFlag(event, "success");
  return {
    is: success === undefined ? "unknown" : success.value ? "success" : "failure",
    by: success,
    reason: text(event, "error_message"),
    code: text(event, "error_code"),
  };
}

/** A boolean that was written as text. */
function spokenFlag(event: Fields, key: string): Leaf<boolean> | undefined {
  const spoken = text(event, key);
  const value = spoken?.value.toLowerCase();
  return spoken && (value === "true" || value === "false")
    ? { value: value === "true", holder: spoken.holder, key }
    : undefined;
}

/** An outcome told in a word instead of a boolean, such as `result` or `status`. */
export function outcomeIn(
  event: Fields,
  key: string,
  successes: readonly string[],
  failures: readonly string[],
): Outcome {
  const told = outcome(event);
  const word = text(event, key);
  if (told.by !== undefined || word === undefined) return told;
  const value = word.value.toLowerCase();
  const is = successes.includes(value) ? "success" : failures.includes(value) ? "failure" : "unknown";
  return { ...told, is };
}

export function origin(event: Fields, ipKey = "client_ip"): Origin | undefined {
  const ip = text(event, ipKey);
  const place = placeOf(event.geoip);
  const userAgent = userAgentOf(event);
  return (ip ?? place ?? userAgent) === undefined ? undefined : { ip, place, userAgent };
}

/** geoip is flat, or nested one level deeper under its own name. */
function placeOf(geoip: unknown): Place | undefined {
  if (!isFields(geoip)) return undefined;
  const flat = isFields(geoip.geoip) ? geoip.geoip : geoip;
  return {
    city: text(flat, "city_name") ?? text(flat, "city"),
    country: text(flat, "country_code"),
    regionCode: text(flat, "region_code"),
    regionName: text(flat, "region_name"),
    continentCode: text(flat, "continent_code"),
    postalCode: text(flat, "postal_code"),
    timezone: text(flat, "timezone"),
    latitude: number(flat, "latitude"),
    longitude: number(flat, "longitude"),
  };
}

/** `useragent` or `user_agent`, a text or an object, which may be nested under its own name. */
function userAgentOf(event: Fields): UserAgent | undefined {
  const key = event.useragent === undefined ? "user_agent" : "useragent";
  const value = event[key];
  if (!isFields(value)) {
    const original = text(event, key);
    return original && { original };
  }
  const flat = isFields(value[key]) ? (value[key] as Fields) : value;
  return {
    name: text(flat, "name"),
    version: text(flat, "version") ?? text(flat, "major"),
    osName: text(flat, "os_name") ?? text(flat, "os"),
    osVersion: text(flat, "os_version") ?? text(flat, "os_major"),
    deviceName: text(flat, "device"),
  };
}

export function device(value: unknown): Device | undefined {
  if (!isFields(value)) return undefined;
  const found = {
    id: text(value, "id"),
    hostname: text(value, "hostname"),
    name: text(value, "displayName"),
    os: text(value, "os"),
    osVersion: text(value, "version") ?? text(value, "os_version"),
    model: text(value, "model"),
    maker: text(value, "make"),
    ip: text(value, "ip"),
  };
  return (found.id ?? found.hostname ?? found.name) === undefined ? undefined : found;
}

export function application(value: unknown): Application | undefined {
  if (!isFields(value)) return undefined;
  const found = {
    id: text(value, "id"),
    name: text(value, "name"),
    label: text(value, "display_label"),
    url: text(value, "sso_url"),
    version: text(value, "version"),
    path: text(value, "path"),
    publisher: text(value, "publisher"),
  };
  return (found.id ?? found.name ?? found.label) === undefined ? undefined : found;
}

export function changes(event: Fields): Leaf<readonly unknown[]> | undefined {
  const value = event.changes;
  return Array.isArray(value) ? { value, holder: event, key: "changes" } : undefined;
}

const FACTORS: ReadonlyMap<string, FactorKind> = new Map([
  ["password", "password"],
  ["totp", "totp"],
  ["otp", "otp"],
  ["push", "push"],
  ["webauthn", "webauthn"],
]);

/** The factors that were accepted; `methods` maps a factor's name to an object with `success`. */
export function authentication(
  event: Fields,
  methods: unknown,
  more: Partial<Authentication> = {},
): Authentication {
  const factors: Authentication["factors"][number][] = [];
  const type = text(event.mfa_meta, "type");
  if (type) factors.push({ kind: factorKind(type.value), name: type.value, from: type });
  if (isFields(methods)) {
    for (const [name, method] of Object.entries(methods)) {
      if (!isFields(method) || method.success !== true || name === type?.value) continue;
      factors.push({ kind: factorKind(name), name });
    }
  }
  return { mfa: flag(event, "mfa"), factors, ...more };
}

function factorKind(name: string): FactorKind {
  return FACTORS.get(name) ?? (name.endsWith("_protect") ? "push" : "other");
}
