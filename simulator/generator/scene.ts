import type { Random } from "../random.ts";
import type { App, Device, Person, Tenant } from "./directory.ts";

/** Who acts, where and with what. Every event of a session shares it. */
export interface Scene {
  readonly random: Random;
  readonly tenant: Tenant;
  readonly providerId: string;
  readonly user: Person;
  readonly administrator: Person;
  readonly device: Device;
  readonly app: App;
  /** Ties requests of one connection, one command or one flow together. */
  readonly thread: string;
  /** Steps already written of what this user does. */
  step: number;
  /** The moment of the step that is being written. */
  nowMs: number;
}

/** An event that waits for its timestamp and its padding. */
export interface Draft {
  readonly service: string;
  /** JSON up to the timestamp's value, and from there on (without the closing brace). */
  readonly before: string;
  readonly after: string;
}

export type Writer = (scene: Scene) => Draft;

const quoted = new Map<string, string>();

/** JSON text of a string out of a small vocabulary. */
export function quote(text: string): string {
  let json = quoted.get(text);
  if (json === undefined) {
    json = JSON.stringify(text);
    if (quoted.size < 200_000) quoted.set(text, json);
  }
  return json;
}

/** The beginning of nearly every event: id, organization, service, event_type, then the timestamp. */
export function draft(scene: Scene, service: string, type: string, after: string): Draft {
  return {
    service,
    before: `{"id":"${eventId(scene.random)}","organization":"${scene.tenant.id}","service":"${service}","event_type":"${type}","timestamp":"`,
    after: `",${versions[service] ?? `"@version":1,`}${after}`,
  };
}

/** The specification lists @version as an integer, as a string for these, and not at all for alert. */
const versions: Readonly<Record<string, string>> = {
  password_vault: `"@version":"1",`,
  access_management: `"@version":"1",`,
  reports: `"@version":"1",`,
  alert: "",
};

/** 24 hexadecimal digits, a lower-case UUID, or rarely an upper-case one. */
export function eventId(random: Random): string {
  const kind = random.below(16);
  if (kind < 9) return random.hex24();
  return kind < 14 ? random.uuid() : random.uuid().toUpperCase();
}

/** An application's label as events carry it: values are stored in lower case. */
export function labelOf(app: App): string {
  return quote(app.displayLabel.toLowerCase());
}

/** The resource of an event about a person. */
export function userResource({ id, username }: Person): string {
  return `{"type":"user","id":"${id}","username":${quote(username)}}`;
}

export function adminResource({ id, email }: Person): string {
  return `{"type":"admin","id":"${id}","email":${quote(email)}}`;
}

/** `auth_context.system`: the managed device that a login came from. */
export function contextSystem({ id, hostname, displayName, os }: Device): string {
  return `{"id":"${id}","hostname":"${hostname}","displayName":"${displayName}","os":"${osNames[os] ?? os}","version":"15.1"}`;
}

const osNames: Readonly<Record<string, string>> = { darwin: "mac os x", windows: "windows" };

/** `auth_methods`: every factor that was tried, with its outcome. */
export function authMethods(factors: Readonly<Record<string, boolean>>): string {
  const entries = Object.entries(factors).map(([name, success]) => `"${name}":{"success":${success}}`);
  return `{${entries.join(",")}}`;
}

/** The phone that answered a push. */
export function protectDevice({ id, username, place }: Person): string {
  return `{"id":"${id.slice(0, 12)}${id.slice(0, 12)}","make":"apple","model":"iphone17,1","os":"ios","os_version":"19.1","app_version":"2.9.0","username":${quote(username)},"user_id":"${id}","ip":"${place.ip}"}`;
}

export function initiatedBy(person: Person, type: "user" | "admin"): string {
  const name = type === "user" ? `"username":${quote(person.username)}` : `"administrator":true`;
  return `{"type":"${type}","id":"${person.id}","email":${quote(person.email)},${name}}`;
}

export function placeOf(person: Person): string {
  return `"client_ip":"${person.place.ip}","useragent":${person.place.userAgent},"geoip":${person.place.geoip}`;
}
