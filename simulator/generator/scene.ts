import type { Random } from "../random.ts";
import type { App, Device, Person, Tenant } from "./directory.ts";

/** One actor's doings: who, where and with what. Every event of a session shares it. */
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
    after: `","@version":"1",${after}`,
  };
}

/** 24 hexadecimal digits, a lower-case UUID, or now and then an upper-case one. */
export function eventId(random: Random): string {
  const kind = random.below(16);
  if (kind < 9) return random.hex24();
  return kind < 14 ? random.uuid() : random.uuid().toUpperCase();
}

export function initiatedBy(person: Person, type: "user" | "admin"): string {
  const name = type === "user" ? `"username":${quote(person.username)}` : `"administrator":true`;
  return `{"type":"${type}","id":"${person.id}","email":${quote(person.email)},${name}}`;
}

export function placeOf(person: Person): string {
  return `"client_ip":"${person.place.ip}","useragent":${person.place.userAgent},"geoip":${person.place.geoip}`;
}
