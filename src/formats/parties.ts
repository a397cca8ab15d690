import type { Meaning, Party } from "../core/meaning.ts";

/** The parties that an event is about, sorted by what they are. */
export interface Parties {
  readonly user: Party | undefined;
  readonly group: Party | undefined;
  readonly device: Party | undefined;
  /** Anything else: an application, a policy, a command, a folder. */
  readonly object: Party | undefined;
}

/** Of two parties of the same kind the target comes first, before the one that was bound to it. */
export function partiesOf({ target, associate }: Meaning): Parties {
  const found: Writable<Parties> = {
    user: undefined,
    group: undefined,
    device: undefined,
    object: undefined,
  };
  if (target) sort(target, found);
  if (associate) sort(associate, found);
  return found;
}

type Writable<Part> = { -readonly [Key in keyof Part]: Part[Key] };

function sort(party: Party, into: Writable<Parties>): void {
  switch (party.kind) {
    case "user":
    case "admin":
      into.user ??= party;
      break;
    case "group":
    case "device_group":
      into.group ??= party;
      break;
    case "device":
      into.device ??= party;
      break;
    case "organization":
    case "policy":
    case "application":
    case "other":
      into.object ??= party;
      break;
  }
}

export function hasName(party: Party | undefined): party is Party {
  return party !== undefined && (party.id ?? party.name ?? party.email ?? party.label) !== undefined;
}
