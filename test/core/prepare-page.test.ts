import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { identityAt, twinIdentity } from "../../src/core/identity.ts";
import {
  type Attribution,
  ForeignEventsError,
  preparePage,
  UNDATED_MS,
} from "../../src/core/prepare-page.ts";
import { scanPage } from "../../src/core/scanner.ts";

const ORG = "5f0c5f0c5f0c5f0c5f0c5f0c";
const OTHER = "6a1b6a1b6a1b6a1b6a1b6a1b";
const single: Attribution = { organizations: [ORG], provider: null };
const group: Attribution = { organizations: [ORG, OTHER], provider: null };
const provider: Attribution = { organizations: [], provider: "9d9d9d9d9d9d9d9d9d9d9d9d" };
const own: Attribution = { organizations: [], provider: null };
const base = {
  organization: ORG,
  service: "sso",
  event_type: "login",
  timestamp: "2026-03-14T14:00:00.123456Z",
  id: "a1",
};

describe("R7 whom an event belongs to", () => {
  test("ids compare without case", () => {
    expect(owners([{ ...base, organization: ORG.toUpperCase() }], group)).toEqual([ORG]);
  });

  test("of a single organization, an event without one is its own", () => {
    expect(owners([{ id: 1 }, { id: 2, organization: null }, { id: 3, organization: "" }], single)).toEqual([
      ORG,
      ORG,
      ORG,
    ]);
  });

  test("in a group, an event without one has no owner, and the error says which it is", () => {
    const error = refusal([base, { id: 2 }, { ...base, organization: OTHER }, { organization: {} }], group);
    expect(error.indexes).toEqual([1, 3]);
  });

  test("an event of an organization that was not asked for is refused, even if the others are right", () => {
    expect(refusal([base, { ...base, organization: OTHER }], single).indexes).toEqual([1]);
    expect(refusal([{ ...base, organization: "7c2d" }, base], group).indexes).toEqual([0]);
  });

  test("runs of equal and different owners are distinguished in any order", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(ORG, OTHER), { minLength: 1 }), (ids) => {
        expect(
          owners(
            ids.map((organization) => ({ ...base, organization })),
            group,
          ),
        ).toEqual(ids);
      }),
    );
  });

  test("a portal's events are the portal's own or any organization's", () => {
    expect(owners([{ id: 1 }, { id: 2, organization: OTHER }], provider)).toEqual([null, OTHER]);
  });

  test("the key's own organization may have any id", () => {
    expect(owners([{ id: 1 }, { id: 2, organization: OTHER.toUpperCase() }], own)).toEqual([null, OTHER]);
  });
});

describe("R10 the identity of an event", () => {
  test.each(Object.keys(base))("differs with %s", (field) => {
    const other =
      field === "organization" ? OTHER : field === "timestamp" ? "2026-03-14T14:00:00.123457Z" : "x";
    expect(identities([{ ...base, [field]: other }], group)).not.toEqual(identities([base], group));
  });

  test("is the same whatever else the event holds, in whatever order, spacing and case of the organization", () => {
    const plain = identities([base], group);
    expect(identities([{ extra: [1], ...base, organization: ORG.toUpperCase() }], group)).toEqual(plain);
    expect(identities([Object.fromEntries(Object.entries(base).reverse())], single)).toEqual(plain);
  });

  test("is the same in a group and alone, also where the event names no organization", () => {
    const { organization: _, ...without } = base;
    expect(identities([without], single)).toEqual(identities([base], group));
  });

  test("without an id is that of the bytes, apart for each organization", () => {
    const { id: _, ...without } = base;
    expect(identities([without], single)).toEqual(identities([without], single));
    expect(identities([{ ...without, n: 1 }], single)).not.toEqual(identities([without], single));
    const bare = { service: "sso" };
    expect(identities([bare], single)).not.toEqual(
      identities([bare], { organizations: [OTHER], provider: null }),
    );
    expect(identities([{ ...without, id: null }], single)).not.toEqual(identities([without], single));
  });

  test("of a portal's event differs from that of an organization and of another portal", () => {
    const { organization: _, ...without } = base;
    const all = [single, provider, { ...provider, provider: "8e8e" }].map(
      (from) => identities([without], from)[0],
    );
    expect(new Set(all).size).toBe(3);
  });

  test("of one event alone is the same as in its page", () => {
    const page = Buffer.from(JSON.stringify([base, { ...base, id: 7 }, { service: "x" }]));
    const prepared = preparePage(page, single);
    for (let index = 0; index < 3; index++) {
      expect(prepared.identities.subarray(index * 16, index * 16 + 16).toString("hex")).toBe(
        identityAt(scanPage(page), index, ORG, null),
      );
    }
  });

  test("of a twin is fixed by the first one's identity and its own bytes", () => {
    const identity = preparePage(Buffer.from(JSON.stringify([base])), single).identities;
    expect(twinIdentity(identity, 7)).toEqual(twinIdentity(identity, 7));
    expect(twinIdentity(identity, 7)).not.toEqual(twinIdentity(identity, 8));
    expect(twinIdentity(identity, 7)).toHaveLength(16);
  });
});

test("R35 an event without a readable time has one fixed time, which is in no span", () => {
  const page = Buffer.from(JSON.stringify([base, { id: 1 }, { id: 2, timestamp: "soon" }]));
  const { timesMs, undated, spans } = preparePage(page, single);
  const timeMs = Date.parse("2026-03-14T14:00:00.123Z");
  expect([...timesMs]).toEqual([timeMs, UNDATED_MS, UNDATED_MS]);
  expect(undated).toBe(2);
  expect(spans).toEqual([{ count: 3, firstMs: timeMs, lastMs: timeMs }]);
});

test("R35 a number is read as seconds or milliseconds since the epoch", () => {
  const timeMs = Date.parse("2026-03-14T14:00:00.123Z");
  const times = [timeMs, String(timeMs), timeMs / 1000, Math.floor(timeMs / 1000), 7, timeMs * 1000, -timeMs];
  const page = Buffer.from(JSON.stringify(times.map((timestamp, id) => ({ id, timestamp }))));
  const wholeMs = timeMs - 123;
  expect([...preparePage(page, single).timesMs]).toEqual([
    ...[timeMs, timeMs, timeMs, wholeMs],
    ...[UNDATED_MS, UNDATED_MS, UNDATED_MS],
  ]);
});

function prepared(events: readonly object[], attribution: Attribution) {
  return preparePage(Buffer.from(JSON.stringify(events)), attribution);
}

function owners(events: readonly object[], attribution: Attribution): (string | null)[] {
  const page = prepared(events, attribution);
  return [...page.organizationIndexes].map((index) => page.organizations[index]!);
}

function identities(events: readonly object[], attribution: Attribution): string[] {
  const page = prepared(events, attribution);
  return events.map((_, index) => page.identities.subarray(index * 16, index * 16 + 16).toString("hex"));
}

function refusal(events: readonly object[], attribution: Attribution): ForeignEventsError {
  try {
    prepared(events, attribution);
  } catch (error) {
    if (error instanceof ForeignEventsError) return error;
    throw error;
  }
  throw new Error("The page was taken.");
}
