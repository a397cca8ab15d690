import type { JournalEvent } from "./event.ts";

/** A JSON object of an event. */
export interface Fields {
  [key: string]: unknown;
}

/**
 * A value as it stands in the event, with the place where it was found. A format that carries it over
 * verbatim takes it from its place; what no format has taken is the event's leftover.
 */
export interface Leaf<Value = string> {
  readonly value: Value;
  readonly holder: Fields;
  readonly key: string;
}

export type PartyKind =
  | "user"
  | "admin"
  | "group"
  | "device"
  | "organization"
  | "policy"
  | "application"
  | "other";

/** Somebody or something that acts or is acted upon. */
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

export interface Device {
  readonly id?: Leaf | undefined;
  readonly hostname?: Leaf | undefined;
  readonly name?: Leaf | undefined;
  readonly ip?: Leaf | undefined;
  readonly os?: Leaf | undefined;
  readonly osVersion?: Leaf | undefined;
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

export interface UserAgent {
  readonly original?: Leaf | undefined;
  readonly name?: Leaf | undefined;
  readonly version?: Leaf | undefined;
  readonly osName?: Leaf | undefined;
  readonly osVersion?: Leaf | undefined;
  readonly deviceName?: Leaf | undefined;
}

/** From where something was done. */
export interface Origin {
  readonly ip?: Leaf | undefined;
  readonly place?: Place | undefined;
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

/** How somebody proved who they are. */
export interface Authentication {
  readonly protocol?: "saml" | "radius" | "ldap" | undefined;
  readonly mfa?: Leaf<boolean> | undefined;
  readonly factors: readonly { readonly kind: FactorKind; readonly name: string; readonly from?: Leaf }[];
  /** Windows' own code, 2 to 11. */
  readonly logonType?: Leaf<number> | undefined;
  /** What they logged in to, where it is not an application. */
  readonly service?: Leaf | undefined;
}

/** A file or report that was stored, read or removed. */
export interface Item {
  readonly id?: Leaf | undefined;
  readonly name?: Leaf | undefined;
  readonly description?: Leaf | undefined;
  readonly type?: Leaf | undefined;
}

/** Who did what to whom, from where, with what outcome. Every leaf points into one parsed event. */
export interface Meaning {
  readonly actor?: Party | undefined;
  /** Whose authentication it is; only on events that may be one. */
  readonly subject?: Party | undefined;
  readonly target?: Party | undefined;
  /** A second party: the one that was bound to the target. */
  readonly associate?: Party | undefined;
  readonly outcome: Outcome;
  readonly origin?: Origin | undefined;
  readonly device?: Device | undefined;
  readonly application?: Application | undefined;
  readonly authentication?: Authentication | undefined;
  readonly item?: Item | undefined;
  readonly processName?: Leaf | undefined;
  readonly changes?: Leaf<readonly unknown[]> | undefined;
  /** The event's own word for how grave it is. */
  readonly risk?: Leaf | undefined;
  readonly category?: Leaf | undefined;
  readonly message?: Leaf | undefined;
}

/** An event, parsed once and understood as far as its service is known. */
export interface Described {
  /** The name of the service that explains it; "fallback" where none is known. */
  readonly service: string;
  /** Freshly parsed: it belongs to whoever asked, who may take values out of it. */
  readonly event: Fields;
  readonly meaning: Meaning;
  /** True where the bytes are no JSON object; `event.original` then holds them as text. */
  readonly unreadable: boolean;
}

/** Never throws. Each call parses anew. */
export type Describe = (event: JournalEvent) => Described;

export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A text that is not empty, or a number as text (exact: those past 2^53 were made text when parsing). */
export function textLeaf(value: unknown, holder: Fields, key: string): Leaf | undefined {
  if (typeof value === "string") return value === "" ? undefined : { value, holder, key };
  return typeof value === "number" ? { value: String(value), holder, key } : undefined;
}

/** The same, looked up. The keys that services ask for are none that objects have by themselves. */
export function text(holder: unknown, key: string): Leaf | undefined {
  if (typeof holder !== "object" || holder === null) return undefined;
  return textLeaf((holder as Fields)[key], holder as Fields, key);
}

export function flag(holder: unknown, key: string): Leaf<boolean> | undefined {
  if (typeof holder !== "object" || holder === null) return undefined;
  const value = (holder as Fields)[key];
  return typeof value === "boolean" ? { value, holder: holder as Fields, key } : undefined;
}

/** A finite number, also where it is written as text. */
export function numberLeaf(value: unknown, holder: Fields, key: string): Leaf<number> | undefined {
  if (typeof value === "number") return { value, holder, key };
  if (typeof value !== "string" || !/^-?\d{1,15}(\.\d{1,15})?$/.test(value)) return undefined;
  return { value: Number(value), holder, key };
}

export function number(holder: unknown, key: string): Leaf<number> | undefined {
  if (typeof holder !== "object" || holder === null) return undefined;
  return numberLeaf((holder as Fields)[key], holder as Fields, key);
}

/** The value of a leaf, which is thereby carried over: it is no longer part of the leftover. */
export function take<Value>(leaf: Leaf<Value>): Value {
  leaf.holder[leaf.key] = undefined;
  return leaf.value;
}
