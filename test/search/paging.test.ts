import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createSearchService, type SearchService } from "../../src/search/service/service.ts";
import { A, B } from "../archive/world.ts";
import { skipUnless } from "../support/components.ts";
import { DUCKDB_REMEDY, duckdb, never, openSearchWorld, type SearchWorld } from "./support.ts";

const skips = skipUnless("duckdb", duckdb, DUCKDB_REMEDY);

/** More for a longer run. `bench/search.js` pages through ten million. */
const EVENTS = Number(process.env.TIDEMARK_PAGING_EVENTS ?? 12_000);
const DAYS = ["2026-03-10", "2026-03-11", "2026-03-12", "2026-03-13"];
const PAGE = 997;

describe.skipIf(skips)("paging by search_after", () => {
  let own: SearchWorld;
  let service: SearchService;
  let held: string[];

  beforeAll(async () => {
    own = await openSearchWorld();
    held = [];
    const perDay = Math.ceil(EVENTS / DAYS.length / 2);
    for (const [at, day] of DAYS.entries()) {
      // Both organizations have events of the same times, so that the order depends on the identity too.
      for (const organization of [A, B])
        for (let from = 0; from < perDay; from += 1000)
          held.push(...(await own.world.events(organization, day, from, Math.min(1000, perDay - from))));
      if (at < DAYS.length - 1) await own.world.seal([A, B], day, 2 * perDay);
    }
    await own.world.closeAll();
    const unused = undefined as never;
    service = createSearchService({
      ...{ search: own.search, describe: unused, facts: unused, scanMax: 1e9 },
      ...{ cursorSecret: "a secret", nowMs: Date.now },
    });
  }, 600_000);
  afterAll(() => own?.close());

  async function* pages(more: object) {
    for (let search_after: unknown; ; ) {
      const body = {
        ...{ service: ["all"], start_time: "2026-03-01T00:00:00Z", limit: PAGE, search_after },
        ...more,
      };
      const answer = await service.answer(
        { kind: "insights", operation: "page", owners: [A, B], body },
        never,
      );
      expect(answer.status).toBe(200);
      yield answer.body.toString("utf8");
      if (answer.events < PAGE) return;
      search_after = JSON.parse(answer.headers["X-Search_after"]!);
    }
  }

  test.each(["ASC", "DESC"])(
    "sees every event exactly once, closed or open (%s)",
    async (sort) => {
      const seen: string[] = [];
      for await (const page of pages({ sort }))
        seen.push(...(JSON.parse(page) as object[]).map((event) => JSON.stringify(event)));
      const wanted = held.map((text) => JSON.stringify(JSON.parse(text)));
      expect(seen.length).toBe(held.length);
      expect(seen.toSorted()).toEqual(wanted.toSorted());
      const times = seen.map((text) => (JSON.parse(text) as { timestamp: string }).timestamp);
      const order = times.toSorted();
      expect(times).toEqual(sort === "ASC" ? order : order.reverse());
    },
    600_000,
  );

  test("sees every match of a term exactly once", async () => {
    const term = { search_term: { and: [{ field: "organization", operator: "contains", value: "bbbb" }] } };
    const seen: string[] = [];
    for await (const page of pages(term))
      seen.push(...(JSON.parse(page) as object[]).map((event) => JSON.stringify(event)));
    const wanted = held.map((text) => JSON.stringify(JSON.parse(text))).filter((text) => text.includes(B));
    expect(seen.toSorted()).toEqual(wanted.toSorted());
  }, 600_000);
});
