import { z } from "zod";

/** A list as the service gives it: a wrapper with `results` and `totalCount`, or a bare array. */
export interface ListPage<Item> {
  readonly items: readonly Item[];
  readonly totalCount: number | undefined;
}

export function listSchema<Item>(item: z.ZodType<Item>): z.ZodType<ListPage<Item>> {
  const wrapper = z.looseObject({
    results: z.array(item),
    totalCount: z.number().nullish().catch(undefined),
  });
  return z.union([
    wrapper.transform(({ results, totalCount }) => ({ items: results, totalCount: totalCount ?? undefined })),
    z.array(item).transform((items) => ({ items, totalCount: undefined })),
  ]);
}

const PAGES_MAX = 100_000;
/** The service's default page. It may give this many whatever was asked, so only a smaller page is the last. */
export const SMALLEST_PAGE = 10;

/**
 * Every record of a list that pages by skip and limit, each once, one page in memory at a time. The
 * records must come sorted by something that does not change (`_id`). A service that ignores `skip`
 * sends nothing new, which ends the list.
 */
export async function* paged<Item>(
  limit: number,
  keyOf: (item: Item) => string,
  fetchPage: (skip: number, limit: number) => Promise<ListPage<Item>>,
): AsyncGenerator<Item, void, undefined> {
  const seen = new Set<string>();
  for (let page = 0, skip = 0; page < PAGES_MAX; page++) {
    const { items, totalCount } = await fetchPage(skip, limit);
    const fresh = items.filter((item) => !seen.has(keyOf(item)));
    for (const item of fresh) {
      const key = keyOf(item);
      if (seen.has(key)) continue;
      seen.add(key);
      yield item;
    }
    skip += items.length;
    if (fresh.length === 0) return;
    if (totalCount !== undefined ? skip >= totalCount : items.length < Math.min(limit, SMALLEST_PAGE)) return;
  }
}

/** The whole list in memory, for lists that are bounded by what one organization holds. */
export async function collected<Item>(items: AsyncIterable<Item>): Promise<readonly Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}
