import { services } from "../../src/services/index.ts";
import { type Shape, shapeOf } from "../../src/services/schema-shape.ts";

type Fields = Record<string, unknown>;
export type Random = () => number;

/** The same numbers for the same seed. */
export function seeded(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Every documented event type, with its service. */
export const documentedTypes = services.flatMap((service) =>
  service.eventTypes.map((eventType) => ({ service: service.name, eventType })),
);

const shapes = new Map(
  services.flatMap((service) =>
    [service.name, ...(service.aliases ?? [])].map((name) => [name, shapeOf(service.event)]),
  ),
);

/** An event of a service with every field that its schema knows, or, with `presence` below 1, with some. */
export function syntheticEvent(service: string, eventType: string, random: Random, presence = 1): Fields {
  const shape = shapes.get(service === "fallback" ? "directory" : service) ?? shapes.get("directory")!;
  const event = objectOf(shape, random, presence);
  return {
    ...event,
    event_type: eventType,
    service: service === "fallback" ? "asset_management" : service,
    timestamp: `2026-11-1${Math.floor(random() * 5)}T10:20:30.${"123456789".slice(0, 1 + Math.floor(random() * 9))}Z`,
    organization: pick(random, ["5f0c5f0c5f0c5f0c5f0c5f0c", "5F0C5F0C5F0C5F0C5F0C5F0C", null]),
  };
}

function objectOf(shape: Shape, random: Random, presence: number): Fields {
  const made: Fields = {};
  for (const [key, field] of shape.fields ?? [])
    if (random() < presence) made[key] = valueFor(key, field, random, presence);
  if (shape.values)
    for (const name of ["totp", "password", "duo"]) made[name] = objectOf(shape.values, random, 1);
  return made;
}

function valueFor(key: string, shape: Shape, random: Random, presence: number): unknown {
  const types = shape.types.filter((type) => type !== "nothing");
  switch (types.length === 0 ? pick(random, ["string", "number", "null", "object"]) : pick(random, types)) {
    case "string":
      return textOf(key, random);
    case "number":
      return pick(random, [0, 1, -1, 3.25, 128, 2 ** 40]);
    case "boolean":
      return random() < 0.5;
    case "array":
      return [0, 1].map((_, at) =>
        shape.elements ? valueFor(`${key}${at}`, shape.elements, random, presence) : at,
      );
    case "object":
      return objectOf(shape, random, presence);
    default:
      return null;
  }
}

const WORDS = [
  "alpha",
  "Beta",
  "gamma delta",
  "Ünïcödé 😀",
  "a|b=c\\d",
  "line\nbreak\r\tand tab",
  "",
  "x".repeat(70),
];
const TYPES = [
  "user",
  "systemuser",
  "admin",
  "user_group",
  "system",
  "application",
  "policy",
  "organization",
  "other",
];

function textOf(key: string, random: Random): string {
  if (key === "type" || key === "source_type") return pick(random, TYPES);
  if (/(^|_)ip$/.test(key))
    return pick(random, ["10.1.2.3", "2001:db8::1", "fe80::1%eth0", "174.16.38.486", ""]);
  if (/email$/.test(key)) return pick(random, ["jo@example.com", "not an address", "ü@example.com"]);
  if (/(^|_)id$|uuid/.test(key))
    return Math.floor(random() * 2 ** 48)
      .toString(16)
      .padStart(24, "5");
  if (key === "latitude" || key === "longitude")
    return pick(random, ["33.6992", "-84.7478", "12.10", "north"]);
  if (key === "severity") return pick(random, ["Low", "medium", "HIGH", "critical", "sev-1"]);
  if (key === "logon_type") return pick(random, ["2", "5", "10", "99", "two"]);
  if (key === "status") return pick(random, ["Acknowledged", "Error", "Idle"]);
  if (key === "sso_url") return "https://sso.example.com/saml2/app";
  return pick(random, WORDS);
}

function pick<Value>(random: Random, values: readonly Value[]): Value {
  return values[Math.floor(random() * values.length)]!;
}

const RETYPED: readonly unknown[] = [
  null,
  true,
  7,
  "text",
  "",
  [],
  {},
  [1, "two"],
  { id: 5 },
  { id: {} },
  -1.5,
];

/** Takes away, nulls or retypes fields anywhere in an event; about one in `oneIn`. */
export function damaged(value: unknown, random: Random, oneIn: number): unknown {
  if (Array.isArray(value)) return value.map((element) => damaged(element, random, oneIn));
  if (typeof value !== "object" || value === null) return value;
  const made: Fields = {};
  for (const [key, inner] of Object.entries(value)) {
    if (random() >= 1 / oneIn) made[key] = damaged(inner, random, oneIn);
    else if (random() < 0.7) made[key] = pick(random, RETYPED);
  }
  return made;
}
