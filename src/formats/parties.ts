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
  const both = [target, associate].filter((party) => party !== undefined);
  return {
    user: both.find(isUser),
    group: both.find((party) => party.kind === "group" || party.kind === "device_group"),
    device: both.find((party) => party.kind === "device"),
    object: both.find((party) => !isUser(party) && !/^(group|device_group|device)$/.test(party.kind)),
  };
}

export function isUser(party: Party | undefined): party is Party & { kind: "user" | "admin" } {
  return party?.kind === "user" || party?.kind === "admin";
}

export function hasName(party: Party | undefined): party is Party {
  return party !== undefined && (party.id ?? party.name ?? party.email ?? party.label) !== undefined;
}
