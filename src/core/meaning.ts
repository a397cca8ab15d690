import type { Effect } from "./effect.ts";
import type { JournalEvent } from "./event.ts";

/*
 * A meaning has the actor, the action, the target, the origin and the outcome of an event. It is made of
 * leaves: values of the parsed event with the place where they were found.
 *
 * A leaf is read in one of three ways:
 * - carried: its value is copied into the output. TypeScript does not allow a look at it.
 * - tested: `test` and `same` answer one question about it, and the output depends only on the answer.
 * - decided on: `decide` and `wordOf` give the value itself, so that the output may depend on all of it.
 * A path that is only carried or tested can be copied as bytes; a path that is decided on cannot.
 */

/** A JSON object of an event. */
export interface Fields {
  [key: string]: unknown;
}

declare const SEALED: unique symbol;

/** A value on its way into the output. It may be written or joined to other text, but not compared. */
export interface Carried<Value = string> {
  readonly [SEALED]: Value;
}

/**
 * A value with its place in the event. A format that copies it unchanged takes it from its place. The values
 * that no format has taken are the leftover of the event.
 */
export interface Leaf<Value = string> {
  readonly value: Carried<Value>;
  readonly holder: Fields;
  readonly key: string;
}

export type PartyKind =
  | "user"
  | "admin"
  | "group"
  | "device"
  | "device_group"
  | "organization"
  | "policy"
  | "application"
  | "other";

/** A person or thing that acts or is acted upon. */
export interface Party {
  readonly kind: PartyKind;
  /** The event's own word for its kind. */
  readonly type?: Leaf | undefined;
  readonly id?: Leaf | undefined;
  readonly otherId?: Leaf | undefined;
  readonly name?: Leaf | undefined;
  readonly email?: Leaf | undefined;
  readonly label?: Leaf | undefined;
  readonly distinguishedName?: Leaf | undefined;
}

export interface Place {
  readonly city?: Leaf | undefined;
  readonly country?: Leaf | undefined;
  readonly regionCode?: Leaf | undefined;
  readonly regionName?: Leaf | undefined;
  readonly continentCode?: Leaf | undefined;
  readonly postalCode?: Leaf | undefined;
  readonly timezone?: Leaf | undefined;
  readonly latitude?: Leaf<number> | undefined;
  readonly longitude?: Leaf<number> | undefined;
}

export interface Device {
  readonly id?: Leaf | undefined;
  readonly hostname?: Leaf | undefined;
  readonly name?: Leaf | undefined;
  readonly ip?: Leaf | undefined;
  /** Where `ip` is. */
  readonly place?: Place | undefined;
  readonly os?: Leaf | undefined;
  readonly osVersion?: Leaf | undefined;
  /** True where the event shows that the organization manages this device. */
  readonly managed?: boolean | undefined;
}

export interface Application {
  readonly id?: Leaf | undefined;
  readonly name?: Leaf | undefined;
  readonly label?: Leaf | undefined;
  readonly url?: Leaf | undefined;
  readonly version?: Leaf | undefined;
  readonly path?: Leaf | undefined;
  readonly publisher?: Leaf | undefined;
}

export interface UserAgent {
  readonly original?: Leaf | undefined;
  readonly name?: Leaf | undefined;
  readonly version?: Leaf | undefined;
  readonly osName?: Leaf | undefined;
  readonly osVersion?: Leaf | undefined;
  readonly osFull?: Leaf | undefined;
  readonly deviceName?: Leaf | undefined;
}

/** The autonomous system that an address belongs to. */
export interface Network {
  readonly number?: Leaf<number> | undefined;
  readonly organization?: Leaf | undefined;
}

/** Where a request came from. Place and network describe `ip`. */
export interface Origin {
  readonly ip?: Leaf | undefined;
  readonly place?: Place | undefined;
  readonly network?: Network | undefined;
  readonly userAgent?: UserAgent | undefined;
}

export interface Outcome {
  readonly is: "success" | "failure" | "unknown";
  /** The field that says so, where there is one. */
  readonly by?: Leaf<unknown> | undefined;
  readonly reason?: Leaf | undefined;
  readonly code?: Leaf | undefined;
}

export type FactorKind = "password" | "otp" | "totp" | "push" | "webauthn" | "other";

/** An accepted proof of identity. */
export interface Factor {
  readonly kind: FactorKind;
  readonly name: string;
  readonly from?: Leaf | undefined;
}

/** How somebody proved who they are. */
export interface Authentication {
  readonly protocol?: "saml" | "openid" | "radius" | "ldap" | undefined;
  readonly mfa?: Leaf<boolean> | undefined;
  readonly factors: readonly Factor[];
  /** Windows' own code, 2 to 11. */
  readonly logonType?: Leaf<number> | undefined;
  /** The service they logged in to, where it is not an application. */
  readonly service?: Leaf | undefined;
}

/** A file or report that was stored, read or removed. */
export interface Item {
  readonly id?: Leaf | undefined;
  readonly name?: Leaf | undefined;
  readonly description?: Leaf | undefined;
  readonly type?: Leaf | undefined;
}

/** Two parties that were bound to each other, or released. */
export interface Link {
  readonly op: "add" | "remove" | "update" | "unknown";
  /** The field that says so. */
  readonly by?: Leaf | undefined;
  readonly from?: Party | undefined;
  readonly to?: Party | undefined;
}

/** The rules by which changes have effects; those for policies are settings, too. */
export const JUDGES = ["account", "setting", "policy"] as const;
export type Judge = (typeof JUDGES)[number];

/** Actor, target, origin, outcome and effects of an event. Every leaf points into one parsed event. */
export interface Meaning {
  readonly actor?: Party | undefined;
  /** Whose authentication it is; only on events that may be one. */
  readonly subject?: Party | undefined;
  readonly target?: Party | undefined;
  /** A second party: the one that was bound to the target. */
  readonly associate?: Party | undefined;
  readonly link?: Link | undefined;
  readonly outcome: Outcome;
  readonly origin?: Origin | undefined;
  readonly device?: Device | undefined;
  readonly application?: Application | undefined;
  readonly authentication?: Authentication | undefined;
  readonly item?: Item | undefined;
  readonly processName?: Leaf | undefined;
  readonly changes?: Leaf<readonly unknown[]> | undefined;
  /** The most important first. */
  readonly effects: readonly Effect[];
  /** Who judged `changes`, where the effects and privileges come from there. */
  readonly judge?: Judge | undefined;
  /** The privileges that were granted or revoked: words of ours, or a role's name from the event. */
  readonly privileges: readonly (string | Carried)[];
  /** The event's own word for its severity. */
  readonly risk?: Leaf | undefined;
  readonly category?: Leaf | undefined;
  readonly message?: Leaf | undefined;
}

/** An event, parsed once and understood as far as its service is known. */
export interface Described {
  /** The name of the service that explains it; "fallback" where none is known. */
  readonly service: string;
  /** Freshly parsed: the caller owns it and may take values out of it. */
  readonly event: Fields;
  readonly meaning: Meaning;
  /** True where the bytes are no JSON object, or a costly one; `event.original` then holds them as text. */
  readonly unreadable: boolean;
}

/** Never throws. Each call parses anew. */
export type Describe = (event: JournalEvent) => Described;

export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value of a leaf, to base a decision on it. */
export function decide<Value>(leaf: Leaf<Value>): Value {
  return leaf.value as unknown as Value;
}

/** Whether a predicate is true for the value. False where there is no leaf. */
export function test<Value>(leaf: Leaf<Value> | undefined, predicate: (value: Value) => boolean): boolean {
  return leaf !== undefined && predicate(decide(leaf));
}

/** Whether both are there and have the same value. */
export function same(one: Leaf | undefined, other: Leaf | undefined): boolean {
  return one !== undefined && other !== undefined && decide(one) === decide(other);
}

/** The same, without regard to case. */
export function sameName(one: Leaf | undefined, other: Leaf | undefined): boolean {
  return one !== undefined && other !== undefined && wordOf(one) === wordOf(other);
}

/** The value in lower case, to compare it with words. "" where there is no leaf. */
export function wordOf(leaf: Leaf | undefined): string {
  return leaf === undefined ? "" : decide(leaf).toLowerCase();
}

function leaf<Value>(value: Value, holder: Fields, key: string): Leaf<Value> {
  return { value: value as unknown as Carried<Value>, holder, key };
}

/** A text that is not empty, or a number as text. Numbers past 2^53 were made text when parsing. */
export function textLeaf(value: unknown, holder: Fields, key: string): Leaf | undefined {
  if (typeof value === "string") return value === "" ? undefined : leaf(value, holder, key);
  return typeof value === "number" ? leaf(String(value), holder, key) : undefined;
}

/** The same, looked up. Services ask only for keys that no object inherits. */
export function text(holder: unknown, key: string): Leaf | undefined {
  if (typeof holder !== "object" || holder === null) return undefined;
  return textLeaf((holder as Fields)[key], holder as Fields, key);
}

export function flag(holder: unknown, key: string): Leaf<boolean> | undefined {
  if (typeof holder !== "object" || holder === null) return undefined;
  const value = (holder as Fields)[key];
  return typeof value === "boolean" ? leaf(value, holder as Fields, key) : undefined;
}

/** A boolean, also where it is written as text. */
export function flagLeaf(value: unknown, holder: Fields, key: string): Leaf<boolean> | undefined {
  if (typeof value === "boolean") return leaf(value, holder, key);
  const word = typeof value === "string" ? value.toLowerCase() : "";
  return word === "true" || word === "false" ? leaf(word === "true", holder, key) : undefined;
}

/** A finite number, also where it is written as text. */
export function numberLeaf(value: unknown, holder: Fields, key: string): Leaf<number> | undefined {
  if (typeof value === "number") return leaf(value, holder, key);
  if (typeof value !== "string" || !/^-?\d{1,15}(\.\d{1,15})?$/.test(value)) return undefined;
  return leaf(Number(value), holder, key);
}

export function number(holder: unknown, key: string): Leaf<number> | undefined {
  if (typeof holder !== "object" || holder === null) return undefined;
  return numberLeaf((holder as Fields)[key], holder as Fields, key);
}

export function listLeaf(value: unknown, holder: Fields, key: string): Leaf<readonly unknown[]> | undefined {
  return Array.isArray(value) ? leaf(value as readonly unknown[], holder, key) : undefined;
}

/** The value of a leaf, which is carried over: it is no longer part of the leftover. */
export function take<Value>(from: Leaf<Value>): Carried<Value> {
  from.holder[from.key] = undefined;
  return from.value;
}

export function isUser(party: Party | undefined): party is Party & { kind: "user" | "admin" } {
  return party?.kind === "user" || party?.kind === "admin";
}
