import fc from "fast-check";
import { fixtureTexts } from "./recipes-support.ts";

/** Values that converters might treat differently from what they replace. */
const VALUES = [
  ...[
    "",
    "x",
    "MIGUEL",
    "miguel",
    "Miguel",
    "ｍiguel",
    "zoë",
    "ZOË",
    "\u212Aelvin",
    "a@b.example",
    "é@b.example",
  ],
  ...["203.0.113.9", "01.2.3.4", "2001:db8::1", "::ffff:1.2.3.4", "fe80::1%eth0", "not:an:ip", "1.2.3"],
  ...["true", "FALSE", "12", "-0", "007", "52.50", "52.5244", "1e5", "windows 11", "Mac OS", "admin", "user"],
  ...[
    "2026-02-29T00:00:00Z",
    "2026-02-28T00:00:00.1Z",
    "2026-11-15T00:00:00+01:00",
    "2026-11-15",
    "/SAML2/x",
  ],
  ...["\u0000\b\u001f", "\u2028", "\ud800", 'a"b\\c', "\u007f", "success", "failed", "high", "Unheard of"],
  ...[0, -0, 1, 7, 90, 90.5, 180.5, -77.25, 1e21, 1e-7, 0.000001, 9007199254740992, 123456789012345],
  ...[true, false, null, [], {}, [1, "a"], { id: "x", type: "admin" }, { geoip: { latitude: "1.5" } }],
  ...[[{ field: "suspended", from: false, to: true }], [{ field: "Mfa.Exclusion", to: { a: 1 } }]],
  ...[[{ field: "email", to: "a@b.example" }], [{ field: "role", to: "Manager", from: "Help Desk" }, "x"]],
] as const;

const texts = fixtureTexts().filter((text) => text.startsWith("{"));
const change = fc.record({
  leaf: fc.nat(),
  how: fc.constantFrom("value", "same", "case", "remove", "add", "order", "word"),
  value: fc.nat(VALUES.length - 1),
  other: fc.nat(),
  word: fc.string({ maxLength: 12 }),
});
export const mutation = fc.record({
  text: fc.constantFrom(...texts),
  changes: fc.array(change, { minLength: 1, maxLength: 3 }),
});

type Mutation = typeof change extends fc.Arbitrary<infer Value> ? Value : never;
export type Fields = Record<string, unknown>;
interface Place {
  readonly holder: Fields;
  readonly key: string;
}

function placesOf(value: unknown, found: Place[] = []): Place[] {
  if (typeof value !== "object" || value === null) return found;
  for (const key of Object.keys(value)) {
    found.push({ holder: value as Fields, key });
    placesOf((value as Fields)[key], found);
  }
  return found;
}

export function mutate(event: Fields, changes: readonly Mutation[]): void {
  for (const { leaf, how, value, other, word } of changes) {
    const places = placesOf(event);
    if (places.length === 0) return;
    const { holder, key } = places[leaf % places.length]!;
    const second = places[other % places.length]!;
    switch (how) {
      case "value":
        holder[key] = structuredClone(VALUES[value]);
        break;
      case "same":
        holder[key] = structuredClone(second.holder[second.key]);
        break;
      case "case":
        if (typeof holder[key] === "string")
          holder[key] = other % 2 ? holder[key].toUpperCase() : holder[key].toLowerCase();
        break;
      case "remove":
        delete holder[key];
        break;
      case "add":
        holder[second.key] = structuredClone(VALUES[value]);
        break;
      case "order": {
        const held = holder[key];
        delete holder[key];
        holder[key] = held;
        break;
      }
      case "word":
        holder[key] = word;
        break;
    }
  }
}
