import fc from "fast-check";
import { expect, test } from "vitest";
import { createOverlapGroups, type Excess, type OwnerWindow } from "../../src/journal/view/overlap-groups.ts";

interface Held {
  readonly ms: number;
  readonly service: string;
}

type Span = Pick<OwnerWindow, "fromMs" | "toMs" | "services"> & { readonly isCounted: boolean };

/** How many events the windows hold, each once, as the totals have it; what truly is; and what one query has. */
function sumsOf(spans: readonly Span[], served: readonly Held[]) {
  const isIn = ({ fromMs, toMs, services }: Span, { ms, service }: Held) =>
    ms >= fromMs && ms < toMs && (services.includes("all") || services.includes(service));
  // A window that is not counted may have been read in part.
  const held = served.filter((event) => spans.some((span) => isIn(span, event)));
  const found: Excess[] = [];
  const groups = createOverlapGroups(
    (fromMs, toMs) => held.filter(({ ms }) => ms >= fromMs && ms < toMs).length,
    (excess) => found.push(excess),
  );
  const byQuery = new Map<string, number>();
  for (const span of spans.toSorted((a, b) => a.fromMs - b.fromMs)) {
    const count = held.filter((event) => isIn(span, event)).length;
    const query = span.services.join();
    if (span.isCounted) byQuery.set(query, (byQuery.get(query) ?? 0) + count);
    const counts = span.isCounted ? { apiCount: count, heldCount: count } : null;
    groups.add({ ...span, query, counts });
  }
  groups.end();
  const all = [...byQuery.values()].reduce((sum, count) => sum + count, 0);
  const lessened = (field: "apiCount" | "heldCount") =>
    found.reduce((sum, excess) => sum - excess[field], all);
  return {
    held: lessened("heldCount"),
    api: lessened("apiCount"),
    truth: held.filter((event) => spans.some((span) => span.isCounted && isIn(span, event))).length,
    most: Math.max(0, ...byQuery.values()),
  };
}

test("R36 a window that is not counted makes only its own time uncertain, not that of all windows around it", () => {
  const held = Array.from({ length: 20 }, (_, at) => ({ ms: at * 10, service: "directory" }));
  const spans = [
    { fromMs: 0, toMs: 100, services: ["directory"], isCounted: true },
    { fromMs: 90, toMs: 200, services: ["all"], isCounted: true },
    { fromMs: 150, toMs: 160, services: ["sso"], isCounted: false },
  ];
  expect(sumsOf(spans, held)).toEqual({ held: 20, api: 20, truth: 20, most: 11 });
});

test("R36 whatever windows overlap, no event counts twice, and the query with the most events counts", () => {
  const span = fc.record({
    from: fc.nat(90),
    length: fc.integer({ min: 1, max: 40 }),
    services: fc.constantFrom(["all"], ["directory"], ["sso"], ["directory", "sso"]),
    isCounted: fc.boolean(),
  });
  const events = fc.array(
    fc.record({ ms: fc.nat(130), service: fc.constantFrom("directory", "sso", "ldap") }),
    { maxLength: 40 },
  );
  fc.assert(
    fc.property(fc.array(span, { maxLength: 8 }), events, (list, held) => {
      // Windows of one query share no time.
      const reached = new Map<string, number>();
      const spans = list
        .toSorted((a, b) => a.from - b.from)
        .map(({ from, length, services, isCounted }): Span => {
          const fromMs = Math.max(from, reached.get(services.join()) ?? 0);
          reached.set(services.join(), fromMs + length);
          return { fromMs, toMs: fromMs + length, services, isCounted };
        });
      const sums = sumsOf(spans, held);
      expect(sums.held).toBeLessThanOrEqual(sums.truth);
      expect(sums.held).toBeGreaterThanOrEqual(sums.most);
      expect(sums.api).toBe(sums.held);
    }),
    { numRuns: 400 },
  );
});
