import { type Fields, isFields, type Link, type Party, text, wordOf } from "../../core/meaning.ts";
import { party } from "./party.ts";

export interface Association {
  /** Undefined where the event only names a second party. */
  readonly link: Link | undefined;
  readonly target: Party | undefined;
  readonly associate: Party | undefined;
}

/**
 * An association names both of its ends under `connection`, with an `op`. Older events name one end, and the
 * other one is the event's resource. Undefined where the event is about no association.
 */
export function associationOf(
  value: unknown,
  resource: Party | undefined,
  eventType: unknown,
): Association | undefined {
  const isChange = typeof eventType === "string" && eventType.endsWith("association_change");
  if (!isFields(value))
    return isChange
      ? { link: { op: "unknown", from: resource }, target: resource, associate: undefined }
      : undefined;
  const connection = isFields(value.connection) ? value.connection : undefined;
  const from = connection ? party(connection.from) : resource;
  const to = connection ? party(connection.to) : party(value);
  const by = text(value, "op");
  // On other event types the resource is the subject of the event, not an end of the association.
  if (!isChange && resource !== undefined) return { link: undefined, target: resource, associate: to };
  const hasLink = isChange || connection !== undefined || by !== undefined;
  return {
    link: hasLink ? { op: opOf(wordOf(by)), by, from, to } : undefined,
    target: from ?? resource,
    associate: to,
  };
}

function opOf(word: string): Link["op"] {
  return word === "add" || word === "remove" || word === "update" ? word : "unknown";
}

export interface Sudo {
  readonly isEnabled: boolean;
  readonly isWithoutPassword: boolean;
}

/** Sudo in the attributes of an association; undefined where they do not mention it. */
export function sudoOf(association: unknown): Sudo | undefined {
  if (!isFields(association)) return undefined;
  const attributes = attributesOf(association);
  const sudo = attributes?.sudo;
  if (typeof sudo === "boolean") return { isEnabled: sudo, isWithoutPassword: false };
  if (!isFields(sudo)) return undefined;
  return { isEnabled: sudo.enabled === true, isWithoutPassword: sudo.withoutPassword === true };
}

function attributesOf({ attributes, connection }: Fields): Fields | undefined {
  if (isFields(attributes)) return attributes;
  return isFields(connection) && isFields(connection.attributes) ? connection.attributes : undefined;
}
