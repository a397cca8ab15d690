import { foldName } from "./fold-name.ts";
import type { Choice, JobRequest } from "./job.ts";
import type { ExistingUser, OfferedUser } from "./source.ts";

/** An offered user, and the reason why it is not posted. */
export interface Chosen {
  readonly user: OfferedUser;
  readonly skipped: string | null;
}

/** Decides which users are posted. Each one that is not has its reason. Pure. */
export function chooseUsers(
  offered: readonly OfferedUser[],
  choice: Choice,
  existing: readonly ExistingUser[] | undefined,
): Chosen[] {
  return offered.map(chooser(choice, existing));
}

/** The same, one user after the other in the order of the list. */
export function chooser(
  choice: Choice,
  existing: readonly ExistingUser[] | undefined,
): (user: OfferedUser) => Chosen {
  const excluded = new Set(choice.exclude.map(foldName));
  const known = existing === undefined ? undefined : indexOf(existing);
  const seen = new Set<string>();
  return (user) => {
    const skipped = reasonToSkip(user, choice, excluded, known, seen);
    for (const name of namesOf(user).slice(0, 1)) seen.add(name);
    const state = choice.state ?? user.state;
    return { user: skipped === null && state !== undefined ? { ...user, state } : user, skipped };
  };
}

const REPEATED = "the source offers the same user more than once";

function reasonToSkip(
  user: OfferedUser,
  choice: Choice,
  excluded: ReadonlySet<string>,
  known: ReadonlyMap<string, ExistingUser> | undefined,
  seen: ReadonlySet<string>,
): string | null {
  const names = namesOf(user);
  if (names.length === 0) return "it has neither a username nor an e-mail address";
  if (seen.has(names[0]!)) return REPEATED;
  if (names.some((name) => excluded.has(name))) return "excluded";
  const unmet = choice.only.find((filter) => !matches(user, filter));
  if (unmet !== undefined) return `does not match ${unmet}`;
  if (choice.onlyNew && find(known, user) !== undefined) return "exists already";
  const isNameless = user.firstname === undefined || user.lastname === undefined;
  if (isNameless && !choice.postNameless) return "it has no first or no last name";
  return null;
}

/**
 * An import that may only create leaves existing users as they are, and one that may only update leaves new ones out.
 * The service reports neither, so both are skipped here, where the service lists its users. A user has one outcome,
 * however often the list has it.
 */
export function limitToOperations(
  offered: readonly OfferedUser[],
  operations: JobRequest["operations"],
  existing: readonly ExistingUser[] | undefined,
): Chosen[] {
  const known = existing === undefined ? undefined : indexOf(existing);
  const seen = new Set<string>();
  const skippedOf = (user: OfferedUser) => {
    const [name] = namesOf(user);
    if (name !== undefined && seen.has(name)) return REPEATED;
    if (name !== undefined) seen.add(name);
    if (known === undefined) return null;
    const exists = find(known, user) !== undefined;
    if (exists && !operations.includes("users.update")) return "exists already, and the import only creates";
    if (!exists && !operations.includes("users.create")) return "does not exist, and the import only updates";
    return null;
  };
  return offered.map((user) => ({ user, skipped: skippedOf(user) }));
}

/** `field=value` compares one field or attribute; other text is looked for in all of them. */
function matches(user: OfferedUser, filter: string): boolean {
  const fields = new Map(fieldsOf(user));
  const [, field, value] = /^([\w.-]+)=(.*)$/s.exec(filter) ?? [];
  if (field !== undefined && value !== undefined) {
    const own = fields.get(foldName(field));
    return own !== undefined && foldName(own) === foldName(value);
  }
  return [...fields.values()].some((text) => foldName(text).includes(foldName(filter)));
}

function fieldsOf(user: OfferedUser): [string, string][] {
  const own = (["username", "email", "firstname", "lastname", "state"] as const).flatMap(
    (name): [string, string][] => (user[name] === undefined ? [] : [[name, user[name]]]),
  );
  return [...own, ...user.attributes.map(({ name, value }): [string, string] => [foldName(name), value])];
}

/** One offered user against the users that exist. */
export interface Difference {
  readonly user: OfferedUser;
  readonly skipped: string | null;
  /** `unknown` where the service does not list its users. */
  readonly kind: "new" | "changed" | "same" | "unknown";
  readonly changes: readonly { readonly field: string; readonly from: string; readonly to: string }[];
}

export function compareUsers(
  chosen: readonly Chosen[],
  existing: readonly ExistingUser[] | undefined,
): Difference[] {
  return chosen.map(comparer(existing));
}

/** The same, one user after the other. */
export function comparer(existing: readonly ExistingUser[] | undefined): (chosen: Chosen) => Difference {
  const known = existing === undefined ? undefined : indexOf(existing);
  return ({ user, skipped }) => {
    const found = find(known, user);
    if (known === undefined) return { user, skipped, kind: "unknown", changes: [] };
    if (found === undefined) return { user, skipped, kind: "new", changes: [] };
    const before = new Map(fieldsOf(found));
    const changes = fieldsOf(user)
      .filter(([field, to]) => field !== "state" && (before.get(field) ?? "") !== to)
      .map(([field, to]) => ({ field, from: before.get(field) ?? "", to }));
    return { user, skipped, kind: changes.length === 0 ? "same" : "changed", changes };
  };
}

function indexOf(users: readonly ExistingUser[]): ReadonlyMap<string, ExistingUser> {
  const index = new Map<string, ExistingUser>();
  for (const user of users) for (const name of namesOf(user)) index.set(name, user);
  return index;
}

function find(
  known: ReadonlyMap<string, ExistingUser> | undefined,
  user: OfferedUser,
): ExistingUser | undefined {
  return namesOf(user)
    .map((name) => known?.get(name))
    .find((found) => found !== undefined);
}

function namesOf({ username, email }: OfferedUser): string[] {
  return [username, email].filter((name) => name !== undefined).map(foldName);
}
