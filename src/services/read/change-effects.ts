import { EFFECT_SEVERITY, type Effect } from "../../core/effect.ts";
import type { Carried } from "../../core/meaning.ts";
import type { ChangeKind } from "../../core/reads.ts";
import type { FieldChange } from "./changes.ts";

/** The effect of one changed value, with the privilege that it grants or revokes. */
export interface Judged {
  readonly effect: Effect;
  readonly privilege?: string | Carried | undefined;
}

interface Rule {
  /** The same as `judge`, for engines that do not parse events: wasm/recipe/changes.ts. */
  readonly reads: ChangeKind;
  judge(change: FieldChange): Judged | undefined;
}

const ROLE_EFFECTS = {
  higher: ["privilege_raise"],
  lower: ["privilege_lower"],
  other: ["role_change"],
} satisfies Record<string, readonly Effect[]>;

/** Names are compared without case and without everything but letters and digits. */
const ACCOUNT_RULES: ReadonlyMap<string, Rule> = rules([
  ["suspended", onOff("disable", "enable")],
  ["active", onOff("enable", "disable")],
  ["state", words({ suspended: "disable", activated: "enable" })],
  ["account_locked locked", onOff("lock", "unlock")],
  ["mfa.exclusion mfa_exclusion", onOff("mfa_exclude", "mfa_include")],
  ["mfa mfa.configured mfa_enabled totp_enabled totpEnabled", onOff("mfa_enable", "mfa_disable")],
  ["enable_user_portal_multifactor enableMultiFactor", onOff("mfa_enable", "mfa_disable")],
  ["sudo", onOff("sudo_grant", "sudo_revoke", "sudo")],
  ["passwordless_sudo", onOff("sudo_grant", "sudo_revoke", "sudo_without_password")],
  ["administrator", onOff("privilege_raise", "privilege_lower", "administrator")],
  ["ldap_binding_user", onOff("privilege_raise", "privilege_lower", "ldap_binding_user")],
  ["role roleName", { reads: ROLE_EFFECTS, judge: role }],
  ["password passwordDate", always("password_change")],
  ["password_expired", onOff("password_reset", undefined)],
  ["password_never_expires", onOff("password_never_expires", undefined)],
  ["email alternateEmail recoveryEmail recoveryEmail.address", always("email_change")],
  ["apiKeySet apiKey", onOff("api_key_set", "api_key_remove")],
  ["ssh_keys public_key", always("ssh_key_change")],
]);

/** Settings of policies and of the organization. A lower or higher number, or a requirement less, is weaker. */
const SETTING_RULES: ReadonlyMap<string, Rule> = rules([
  ["disabled", onOff("disable", "enable")],
  ["active enabled", onOff("enable", "disable")],
  ["minLength maxHistory minChangePeriodInDays lockoutTimeInSeconds", weakerWhen((from, to) => to < from)],
  ["maxLoginAttempts passwordExpirationInDays", weakerWhen((from, to) => to > from)],
  ["needsLowercase needsUppercase needsNumeric needsSymbolic", onOff(undefined, "policy_weaken")],
  ["enableMinLength enableMaxHistory enableMaxLoginAttempts", onOff(undefined, "policy_weaken")],
  ["enablePasswordExpirationInDays enableLockoutTimeInSeconds", onOff(undefined, "policy_weaken")],
  ["disallowCommonlyUsedPasswords disallowSequentialOrRepetitiveChars", onOff(undefined, "policy_weaken")],
  ["allowUsernameSubstring", onOff("policy_weaken", undefined)],
  ["requireMFA mfa_required deviceTrustRequired", onOff(undefined, "policy_weaken")],
  ["effect.action", { reads: "entry", judge: weakerAction }],
]);

const TABLES = [
  ["account", ACCOUNT_RULES],
  ["setting", SETTING_RULES],
] as const;

/** How the rules read each name that they know. A change of any other field has no effect. */
export const changeKinds: ReadonlyMap<string, ChangeKind> = kindsOf(TABLES);

/** The severities of these effects in each table. */
export function severitiesOf(effects: readonly Effect[]): ReadonlyMap<string, number>[] {
  return TABLES.map(
    ([table]) => new Map(effects.map((effect) => [`${table} ${effect}`, EFFECT_SEVERITY[effect] ?? 1])),
  );
}

/** An effect is an account's or a setting's: the type of the event decides which rules are asked. */
function kindsOf(tables: readonly (readonly [string, ReadonlyMap<string, Rule>])[]) {
  const kinds = new Map<string, ChangeKind>();
  for (const [table, rules] of tables)
    for (const [name, { reads }] of rules) {
      const own = typeof reads === "string" ? reads : prefixed(reads, table);
      const known = kinds.get(name);
      kinds.set(name, known === undefined ? own : both(known, own));
    }
  return kinds;
}

type Effects = Exclude<ChangeKind, string>;

function prefixed(reads: Effects, table: string): Effects {
  const named = (effects: readonly string[]) => effects.map((effect) => `${table} ${effect}`);
  if ("always" in reads) return { always: named(reads.always) };
  if ("words" in reads) return { words: reads.words.map(([word, effects]) => [word, named(effects)]) };
  if ("on" in reads) return { ...reads, on: named(reads.on), off: named(reads.off) };
  return { higher: named(reads.higher), lower: named(reads.lower), other: named(reads.other) };
}

/** A name that both tables know. */
function both(one: ChangeKind, other: ChangeKind): ChangeKind {
  if (typeof one === "string" || typeof other === "string" || !("on" in one && "on" in other))
    return "ordered";
  // Which of the two lists it is not told.
  if (one.isListed || other.isListed) return "ordered";
  return { on: [...one.on, ...other.on], off: [...one.off, ...other.off], isListed: false };
}

export function judgeAccount(change: FieldChange): Judged | undefined {
  return judge(ACCOUNT_RULES, change);
}

export function judgeSetting(change: FieldChange): Judged | undefined {
  return judge(SETTING_RULES, change);
}

/** The rule for the whole path, else the rule for its last name. */
function judge(known: ReadonlyMap<string, Rule>, change: FieldChange): Judged | undefined {
  const path = normalized(change.path);
  const rule = known.get(path) ?? known.get(path.slice(path.lastIndexOf(".") + 1));
  return rule?.judge(change);
}

function rules(entries: readonly (readonly [names: string, rule: Rule])[]): ReadonlyMap<string, Rule> {
  return new Map(
    entries.flatMap(([names, rule]) =>
      names.split(" ").map((name): [string, Rule] => [normalized(name), rule]),
    ),
  );
}

function normalized(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9.]/g, "");
}

/** A boolean, also as text; a missing new value counts as false if the old one was true. */
function onOff(on: Effect | undefined, off: Effect | undefined, privilege?: string): Rule {
  return {
    reads: {
      on: on === undefined ? [] : [on],
      off: off === undefined ? [] : [off],
      isListed: privilege !== undefined,
    },
    judge({ from, to }) {
      const is = boolean(to) ?? (boolean(from) === true ? false : undefined);
      if (is === undefined || is === boolean(from)) return undefined;
      const effect = is ? on : off;
      return effect && { effect, privilege };
    },
  };
}

function wordOf(value: unknown): string {
  return typeof value === "string" ? value.toLowerCase() : "";
}

function boolean(value: unknown): boolean | undefined {
  if (typeof value === "boolean") return value;
  const word = wordOf(value);
  return word === "true" ? true : word === "false" ? false : undefined;
}

function always(effect: Effect): Rule {
  return { reads: { always: [effect] }, judge: () => ({ effect }) };
}

/** A new value that is one of these words. */
function words(known: Readonly<Record<string, Effect>>): Rule {
  const effects = new Map(Object.entries(known));
  return {
    reads: { words: [...effects].map(([word, effect]) => [word, [effect]]) },
    judge({ to }) {
      const effect = effects.get(wordOf(to));
      return effect && { effect };
    },
  };
}

/** The service's own roles for administrators, by what they may do. */
export const ROLE_RANKS: ReadonlyMap<string, number> = new Map([
  ["read only", 1],
  ["billing only", 1],
  ["help desk", 2],
  ["command runner", 3],
  ["command runner with billing", 3],
  ["manager", 4],
  ["administrator", 5],
  ["administrator with billing", 6],
]);

/** A role of one's own, or one that is given by its id, cannot be ranked. */
function role({ from, to, toText }: FieldChange): Judged {
  const before = ROLE_RANKS.get(wordOf(from));
  const after = ROLE_RANKS.get(wordOf(to));
  if (before === undefined || after === undefined || before === after)
    return { effect: "role_change", privilege: toText };
  return { effect: after > before ? "privilege_raise" : "privilege_lower", privilege: toText };
}

function weakerWhen(isWeaker: (from: number, to: number) => boolean): Rule {
  return {
    reads: "entry",
    judge: ({ from, to }) =>
      typeof from === "number" && typeof to === "number" && isWeaker(from, to)
        ? { effect: "policy_weaken" }
        : undefined,
  };
}

/** Conditional access: from denying to allowing, or to allowing without a second factor. */
function weakerAction({ from, to }: FieldChange): Judged | undefined {
  const strength = (value: unknown) => {
    const word = wordOf(value);
    return word === "deny" ? 2 : word === "allow" ? 0 : 1;
  };
  return strength(to) < strength(from) ? { effect: "policy_weaken" } : undefined;
}
