import type { Random } from "../random.ts";
import { quote, type Scene } from "./scene.ts";

/** Draws one entry of `changes` as JSON. `from` is often absent. */
type Change = (scene: Scene) => string;

const user: readonly (readonly [weight: number, change: Change])[] = [
  [
    6,
    ({ random }) =>
      entry(random, "department", `"${random.pick(departments)}"`, `"${random.pick(departments)}"`),
  ],
  [
    4,
    ({ random }) => entry(random, "jobTitle", `"engineer ${random.below(4)}"`, `"lead ${random.below(4)}"`),
  ],
  [4, ({ random }) => entry(random, "location", `"berlin"`, `"nairobi"`)],
  [3, ({ random, administrator }) => entry(random, "manager", "null", `"${administrator.id}"`)],
  [3, ({ random, user: { username } }) => entry(random, "displayname", `""`, quote(username))],
  [
    2,
    ({ random }) =>
      entry(random, "phoneNumbers", "[]", `[{"type":"work","number":"+1 555 01${random.below(90) + 10}"}]`),
  ],
  [1, ({ random }) => entry(random, "addresses", "null", `[{"type":"home","locality":"berlin"}]`)],
  [
    2,
    ({ random }) =>
      entry(random, "attributes", "[]", `[{"name":"costcenter","value":"${random.below(900)}"}]`),
  ],
  [
    1,
    ({ random }) =>
      entry(random, "ssh_keys", "[]", `[{"name":"laptop","public_key":"ssh-ed25519 aaaa${random.bits()}"}]`),
  ],
  [2, ({ random }) => flip(random, "suspended")],
  [2, ({ random }) => entry(random, "state", ...random.pick(states))],
  [1, ({ random }) => flip(random, "account_locked")],
  [1, ({ random }) => flip(random, "enable_user_portal_multifactor")],
  [
    1,
    () =>
      `{"field":"mfa","from":{"exclusion":false,"configured":true},"to":{"exclusion":true,"exclusionUntil":"2026-11-21T00:00:00Z","configured":true}}`,
  ],
  [1, ({ random }) => flip(random, "mfa.exclusion")],
  [1, ({ random }) => flip(random, "totp_enabled")],
  [1, ({ random }) => flip(random, "sudo")],
  [1, ({ random }) => flip(random, "passwordless_sudo")],
  [1, ({ random }) => flip(random, "password_never_expires")],
  [1, () => `{"field":"password_expired","to":true}`],
  [1, () => `{"field":"password_date","from":"2026-05-01T09:00:00Z","to":"2026-11-01T09:00:00Z"}`],
  [
    1,
    ({ random, user: { email } }) =>
      entry(random, "email", quote(email), quote(`${email}.elsewhere.example`)),
  ],
];

const admin: readonly (readonly [weight: number, change: Change])[] = [
  [3, ({ random }) => entry(random, "roleName", `"help desk"`, `"administrator with billing"`)],
  [2, ({ random }) => entry(random, "role", `"${random.hex24()}"`, `"${random.hex24()}"`)],
  [2, ({ random }) => flip(random, "enableMultiFactor")],
  [1, () => `{"field":"apiKeySet","from":false,"to":true}`],
  [1, ({ random }) => flip(random, "suspended")],
];

const others: Readonly<Record<string, readonly string[]>> = {
  authnpolicy: [
    `{"field":"disabled","from":false,"to":true}`,
    `{"field":"effect","from":{"action":"deny"},"to":{"action":"allow"}}`,
  ],
  policy: [`{"field":"template.values","to":["a","b"]}`, `{"field":"name","from":"old","to":"new"}`],
  organization: [
    `{"field":"settings.passwordPolicy.minLength","from":14,"to":8}`,
    `{"field":"settings.contactEmail","to":"it@example.test"}`,
  ],
  system: [
    `{"field":"displayName","from":"srv1","to":"srv2"}`,
    `{"field":"allowMultiFactorAuthentication","from":false,"to":true}`,
  ],
  application: [
    `{"field":"displayLabel","from":"payroll","to":"pay"}`,
    `{"field":"active","from":true,"to":false}`,
  ],
};

const departments = ["sales", "finance", "engineering", "people", "support"] as const;
const states: readonly (readonly [from: string, to: string])[] = [
  [`"ACTIVATED"`, `"SUSPENDED"`],
  [`"STAGED"`, `"ACTIVATED"`],
  [`"SUSPENDED"`, `"ACTIVATED"`],
];

/** One to four changes of a user, each of another field. */
export function userChanges(scene: Scene): string {
  return list(scene, user, 1 + Math.min(3, scene.random.below(3) * scene.random.below(3)));
}

export function adminChanges(scene: Scene): string {
  return list(scene, admin, 1 + scene.random.below(2));
}

export function changesOf(scene: Scene, kind: keyof typeof others): string {
  return `[${scene.random.pick(others[kind]!)}]`;
}

function list(scene: Scene, table: typeof user, count: number): string {
  const drawn = new Map<Change, string>();
  for (let i = 0; i < count; i++) {
    const change = pick(scene.random, table);
    drawn.set(change, change(scene));
  }
  return `[${[...drawn.values()].join(",")}]`;
}

function pick(random: Random, table: typeof user): Change {
  let rest = random.below(table.reduce((sum, [weight]) => sum + weight, 0));
  for (const [weight, change] of table) {
    rest -= weight;
    if (rest < 0) return change;
  }
  return table[0]![1];
}

function entry(random: Random, field: string, from: string, to: string): string {
  return random.chance(0.3)
    ? `{"field":"${field}","to":${to}}`
    : `{"field":"${field}","from":${from},"to":${to}}`;
}

function flip(random: Random, field: string): string {
  const to = random.chance(0.6);
  return `{"field":"${field}","from":${!to},"to":${to}}`;
}
