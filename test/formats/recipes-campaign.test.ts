// A campaign: events of the simulator by recipes and by the converter, byte by byte.
import { expect, test } from "vitest";
import { startSimulator } from "../../simulator/index.ts";
import { manyLines, pageOfTexts, withAllRecipes } from "./recipes-support.ts";

/** TIDEMARK_RECIPE_EVENTS=1000000 is the long run. */
const EVENTS = Number(process.env.TIDEMARK_RECIPE_EVENTS ?? 6000);
/** Events of one world; each slice has another seed. */
const SLICE = 25_000;

function* pages(events: Iterable<Uint8Array>): Iterable<string[]> {
  let texts: string[] = [];
  for (const bytes of events) {
    texts.push(Buffer.from(bytes).toString());
    if (texts.length < 1000) continue;
    yield texts;
    texts = [];
  }
  if (texts.length > 0) yield texts;
}

test(
  "recipes and the converter write the simulator's events with the same bytes",
  async () => {
    const contenders = withAllRecipes();
    let count = 0;
    for (let seed = 1; count < EVENTS; seed++) {
      const simulator = await startSimulator({
        events: Math.min(SLICE, EVENTS - count),
        organizations: 12,
        seed,
        clock: { start: "2026-11-14T00:00:00Z", speed: 0 },
      });
      try {
        for (const texts of pages(simulator.control.allEvents({ pending: true }))) {
          const page = pageOfTexts(texts);
          for (const { converter, recipes } of contenders)
            for (const [index, line] of manyLines(recipes, page).entries())
              if (line !== converter(page.event(index))) expect(line).toBe(converter(page.event(index)));
          count += page.count;
        }
      } finally {
        await simulator.close();
      }
      if (process.env.TIDEMARK_RECIPE_EVENTS !== undefined)
        console.log(
          `${count} events: ${contenders.map(({ name, recipes }) => `${name} ${JSON.stringify(recipes.counts)}`).join(", ")}`,
        );
    }
    for (const { recipes } of contenders) {
      expect(recipes.counts.wrong).toBe(0);
      // A small run learns most of what it sees.
      expect(recipes.counts.fast).toBeGreaterThan(count * 0.4);
    }
  },
  EVENTS > 50_000 ? 4 * 3_600_000 : 300_000,
);
