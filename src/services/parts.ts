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
  numberLeaf,
  type Outcome,
  type Place,
  text,
  textLeaf,
  type UserAgent,
} from "../core/meaning.ts";
import { party } from "./party.ts";

/*
 * Objects are read by going over the fields they have, not by asking for those they may have: events come
 * in so many shapes that each question is a search, and most answers would be no.
 */

type Writable<Part> = { -readonly [Key in keyof Part]: Part[Key] };

/** What nearly every event says in the same words; a service's file adds and corrects. */
export function common(event: Fields): Meaning {
  const meaning: Writable<Meaning> = emptyMeaning();
  const outcome = meaning.outcome as Writable<Outcome>;
  let ip: Leaf | undefined;
  let place: Place | undefined;
  let userAgent: UserAgent | undefined;
  for (const key in event) {
    const value = event[key];
    switch (key) {
      case "initiated_by":
        meaning.actor = party(value);
        break;
      case "resource":
        meaning.target = party(value);
        break;
      case "association":
        meaning.associate = party(value);
        break;
      case "success":
        outcome.by = told(value, event);
        break;
      case "error_message":
        outcome.reason = textLeaf(value, event, key);
        break;
      case "error_code":
        outcome.code = textLeaf(value, event, key);
        break;
      case "client_ip":
        ip = textLeaf(value, event, key);
        break;
      case "geoip":
        place = placeOf(value);
        break;
      case "useragent":
      case "user_agent":
        userAgent = userAgentOf(value, event, key);
        break;
      case "system":
        meaning.device = device(value);
        break;
      case "application":
        meaning.application = application(value);
        break;
      case "changes":
        meaning.changes = Array.isArray(value) ? { value, holder: event, key } : undefined;
        break;
      case "message":
        meaning.message = textLeaf(value, event, key);
        break;
    }
  }
  if (outcome.by) outcome.is = outcome.by.value ? "success" : "failure";
  if (ip || place || userAgent) meaning.origin = { ip, place, userAgent };
  return meaning;
}

/** All fields in one order, so that every meaning has the same shape. Absent success is unknown, never failure. */
function emptyMeaning(): Writable<Meaning> {
  return {
    actor: undefined,
    subject: undefined,
    target: undefined,
    associate: undefined,
    outcome: { is: "unknown", by: undefined, reason: undefined, code: undefined },
    origin: undefined,
    device: undefined,
    application: undefined,
    authentication: undefined,
    item: undefined,
    processName: undefined,
    changes: undefined,
    risk: undefined,
    category: undefined,
    message: undefined,
  };
}

/** A boolean, also where it was written as text. */
function told(value: unknown, event: Fields): Leaf<boolean> | undefined {
  if (typeof value === "boolean") return { value, holder: event, key: "success" };
  const word = typeof value === "string" ? value.toLowerCase() : "";
  if (word !== "true" && word !== "false") return undefined;
  return { value: word === "true", holder: event, key: "success" };
}

/** An outcome told in a word instead of a boolean, such as `result` or `status`. */
export function inWords(
  outcome: Outcome,
  word: Leaf | undefined,
  successes: readonly string[],
  failures: readonly string[],
): Outcome {
  if (outcome.by !== undefined || word === undefined) return outcome;
  const value = word.value.toLowerCase();
  const is = successes.includes(value) ? "success" : failures.includes(value) ? "failure" : "unknown";
  return { ...outcome, is };
}

/** geoip is flat, or nested one level deeper under its own name. */
function placeOf(geoip: unknown): Place | undefined {
  if (!isFields(geoip)) return undefined;
  const flat = isFields(geoip.geoip) ? geoip.geoip : geoip;
  const place: Writable<Place> = {
    city: undefined,
    country: undefined,
    regionCode: undefined,
    regionName: undefined,
    continentCode: undefined,
    postalCode: undefined,
    timezone: undefined,
    latitude: undefined,
    longitude: undefined,
  };
  for (const key in flat) {
    const value = flat[key];
    switch (key) {
      case "city_name":
      case "city":
        place.city ??= textLeaf(value, flat, key);
        break;
      case "country_code":
        place.country = textLeaf(value, flat, key);
        break;
      case "region_code":
        place.regionCode = textLeaf(value, flat, key);
        break;
      case "region_name":
        place.regionName = textLeaf(value, flat, key);
        break;
      case "continent_code":
        place.continentCode = textLeaf(value, flat, key);
        break;
      case "postal_code":
        place.postalCode = textLeaf(value, flat, key);
        break;
      case "timezone":
        place.timezone = textLeaf(value, flat, key);
        break;
      case "latitude":
        place.latitude = numberLeaf(value, flat, key);
        break;
      case "longitude":
        place.longitude = numberLeaf(value, flat, key);
        break;
    }
  }
  return place;
}

/** A text or an object, which may be nested under its own name. */
function userAgentOf(value: unknown, event: Fields, key: string): UserAgent | undefined {
  if (!isFields(value)) {
    const original = textLeaf(value, event, key);
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
  const found: Writable<Device> = {};
  for (const key in value) {
    const held = value[key];
    switch (key) {
      case "id":
        found.id = textLeaf(held, value, key);
        break;
      case "hostname":
        found.hostname = textLeaf(held, value, key);
        break;
      case "displayName":
        found.name = textLeaf(held, value, key);
        break;
      case "os":
        found.os = textLeaf(held, value, key);
        break;
      case "version":
        found.osVersion = textLeaf(held, value, key);
        break;
    }
  }
  return (found.id ?? found.hostname ?? found.name) === undefined ? undefined : found;
}

export function application(value: unknown): Application | undefined {
  if (!isFields(value)) return undefined;
  const found: Writable<Application> = {};
  for (const key in value) {
    const held = value[key];
    switch (key) {
      case "id":
      case "name":
      case "version":
      case "path":
      case "publisher":
        found[key] = textLeaf(held, value, key);
        break;
      case "display_label":
        found.label = textLeaf(held, value, key);
        break;
      case "sso_url":
        found.url = textLeaf(held, value, key);
        break;
    }
  }
  return (found.id ?? found.name ?? found.label) === undefined ? undefined : found;
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
    for (const name in methods) {
      const method = methods[name];
      if (!isFields(method) || method.success !== true || name === type?.value) continue;
      factors.push({ kind: factorKind(name), name });
    }
  }
  return { mfa: flag(event, "mfa"), factors, ...more };
}

function factorKind(name: string): FactorKind {
  return FACTORS.get(name) ?? (name.endsWith("_protect") ? "push" : "other");
}
