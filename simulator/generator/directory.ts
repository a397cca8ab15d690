import type { OrganizationOption } from "../options.ts";
import { createRandom, type Random } from "../random.ts";
import {
  applicationNames,
  cities,
  companyKinds,
  companyNames,
  firstNames,
  lastNames,
  operatingSystems,
  userAgents,
} from "./words.ts";

/** The people and things that events are about. The world's tables are filled from the same lists. */
export interface Tenant {
  /** 1 for the first organization; 0 is the provider's portal. */
  readonly number: number;
  readonly id: string;
  readonly name: string;
  readonly weight: number;
  readonly users: readonly Person[];
  readonly administrators: readonly Person[];
  readonly systems: readonly Device[];
  readonly applications: readonly App[];
  readonly groups: readonly Group[];
}

export interface Person {
  readonly id: string;
  readonly username: string;
  readonly email: string;
  readonly firstname: string;
  readonly lastname: string;
  readonly place: Place;
}

/** Address, country and browser, as pieces of JSON that are ready to be copied into an event. */
export interface Place {
  readonly ip: string;
  readonly geoip: string;
  readonly userAgent: string;
}

export interface Device {
  readonly id: string;
  readonly hostname: string;
  readonly displayName: string;
  readonly os: string;
}

export interface App {
  readonly id: string;
  readonly name: string;
  readonly displayLabel: string;
  readonly ssoUrl: string;
}

export interface Group {
  readonly id: string;
  readonly name: string;
}

export interface Directory {
  readonly providerId: string;
  readonly provider: Tenant;
  readonly tenants: readonly Tenant[];
}

export function createDirectory(seed: number, wanted: number | readonly OrganizationOption[]): Directory {
  const options = typeof wanted === "number" ? Array.from({ length: wanted }, () => ({})) : wanted;
  const weights = options.map((option: OrganizationOption, index) => option.weight ?? 1 / (index + 1) ** 1.1);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const tenants = options.map((option, index) =>
    createTenant(seed, index + 1, weights[index]! / total, option),
  );
  return {
    providerId: createRandom(seed, 77).hex24(),
    provider: createTenant(seed, 0, 0.002, { name: "the provider's portal" }),
    tenants,
  };
}

function createTenant(seed: number, number: number, weight: number, option: OrganizationOption): Tenant {
  const random = createRandom(seed, number, 11);
  const id = option.id?.toLowerCase() ?? random.hex24();
  const company = `${random.pick(companyNames)}-${random.pick(companyKinds)}`;
  const name = option.name ?? `${company}-${number}`;
  const places = Array.from({ length: 12 }, () => createPlace(random));
  const people = (count: number, prefix: string) =>
    Array.from({ length: count }, (_, index) =>
      createPerson(random, `${prefix}${index}`, name, random.pick(places)),
    );
  const userCount = Math.min(400, 3 + Math.round(weight * 1500));
  return {
    number,
    id,
    name,
    weight,
    users: people(userCount, "u"),
    administrators: people(Math.min(6, 1 + Math.round(weight * 20)), "admin"),
    systems: Array.from({ length: Math.max(2, userCount >> 1) }, (_, index) => createDevice(random, index)),
    applications: applicationNames
      .slice(0, 2 + random.below(applicationNames.length - 1))
      .map(([app, label]) => ({
        id: random.hex24(),
        name: app,
        displayLabel: label,
        ssoUrl: `https://sso.example.test/saml2/${app}-${number}`,
      })),
    groups: ["everyone", "engineering", "contractors"].map((group) => ({ id: random.hex24(), name: group })),
  };
}

function createPerson(random: Random, suffix: string, company: string, place: Place): Person {
  const [firstname, lastname] = [random.pick(firstNames), random.pick(lastNames)];
  const username = `${firstname}.${lastname}.${suffix}`;
  const host = company.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
  return { id: random.hex24(), username, email: `${username}@${host}.example`, firstname, lastname, place };
}

function createPlace(random: Random): Place {
  const [country, timezone, city, region, latitude, longitude] = random.pick(cities);
  const flat = {
    country_code: country,
    timezone,
    latitude,
    longitude,
    continent_code: "na",
    region_name: region,
    city_name: city,
  };
  const nested = {
    geoip: {
      country_code: country,
      timezone,
      latitude: String(latitude),
      longitude: String(longitude),
      region_name: region,
    },
  };
  const ip = random.chance(0.1)
    ? `2001:db8:${random.below(65_536).toString(16)}::${random.below(65_536).toString(16)}`
    : `203.0.${random.below(256)}.${1 + random.below(254)}`;
  return {
    ip,
    geoip: JSON.stringify(random.chance(0.1) ? nested : flat),
    userAgent: JSON.stringify(random.pick(userAgents)),
  };
}

function createDevice(random: Random, index: number): Device {
  const os = random.pick(operatingSystems);
  const hostname = `${os}-${random.below(65_536).toString(16)}-${index}`;
  return { id: random.hex24(), hostname, displayName: hostname, os };
}
