import {
  type Fields,
  isFields,
  type Leaf,
  type Party,
  type PartyKind,
  same,
  sameName,
  text,
  textLeaf,
  wordOf,
} from "../../core/meaning.ts";

const KINDS: ReadonlyMap<string, PartyKind> = new Map([
  ["user", "user"],
  ["systemuser", "user"],
  ["system_user", "user"],
  ["admin", "admin"],
  ["administrator", "admin"],
  ["group", "group"],
  ["user_group", "group"],
  ["system_group", "device_group"],
  ["device_group", "device_group"],
  ["system", "device"],
  ["device", "device"],
  ["organization", "organization"],
  ["policy", "policy"],
  ["authnpolicy", "policy"],
  ["application", "application"],
]);

/** Undefined for anything without an id and a name. `kind` applies where the value has no known type. */
export function party(value: unknown, kind: PartyKind = "other"): Party | undefined {
  if (!isFields(value)) return undefined;
  let id: Leaf | undefined;
  let userId: Leaf | undefined;
  let username: Leaf | undefined;
  let name: Leaf | undefined;
  let email: Leaf | undefined;
  let label: Leaf | undefined;
  let type: Leaf | undefined;
  for (const key in value) {
    const held = value[key];
    switch (key) {
      case "id":
      case "object_id":
        id ??= textLeaf(held, value, key);
        break;
      case "user_id":
        userId = textLeaf(held, value, key);
        break;
      case "username":
        username = textLeaf(held, value, key);
        break;
      case "name":
      case "hostname":
        name ??= textLeaf(held, value, key);
        break;
      case "email":
      case "recipient_email":
        email ??= textLeaf(held, value, key);
        break;
      case "displayName":
      case "display_name":
      case "displayLabel":
        label ??= textLeaf(held, value, key);
        break;
      case "type":
        type = textLeaf(held, value, key);
        break;
    }
  }
  if ((id ?? userId ?? username ?? name ?? email ?? label) === undefined) return undefined;
  return {
    kind: kindOf(value, type) ?? kind,
    type,
    id: id ?? userId,
    otherId: id === undefined ? undefined : userId,
    name: username ?? name,
    email,
    label,
    distinguishedName: undefined,
  };
}

function kindOf(value: Fields, type: Leaf | undefined): PartyKind | undefined {
  const kind = type && KINDS.get(wordOf(type));
  if ((kind === undefined || kind === "user") && value.administrator === true) return "admin";
  return kind;
}

/** The user that the event's own `username` names. `known` adds to it unless it is another user. */
export function named(event: Fields, known: Party | undefined, key = "username"): Party | undefined {
  const name = text(event, key);
  if (name === undefined) return known;
  if (known === undefined) return { kind: "user", name };
  if (known.name === undefined) return { ...known, name };
  return sameName(known.name, name) ? known : { kind: "user", name };
}

/** The same id, or the same name where one of them has no id. */
export function isSameParty(one: Party | undefined, other: Party | undefined): boolean {
  if (one === undefined || other === undefined) return false;
  return one.id && other.id ? same(one.id, other.id) : same(one.name, other.name);
}
