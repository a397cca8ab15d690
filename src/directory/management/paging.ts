import { z } from "zod";
import { NonsenseError } from "../errors.ts";

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

/** More steps back than this mean that the records come in no order. */
const STEPS_BACK_MAX = 200;

/**
 * Every record of a list that pages by skip and limit, each once, one page in memory at a time. A service that ignores
 * `skip` sends nothing new, which ends the list.
 *
 * A record that is deleted meanwhile moves all later ones up by one place, so the next page would leave one out. With
 * `isSorted`, the records come sorted by something that does not change (`_id`). Each page then begins with the last
 * record of the page before. If it begins with a record that was not seen, or with none, the reader steps back until it
 * meets one that was seen.
 */
export async function* paged<Item>(
  limit: number,
  keyOf: (item: Item) => string,
  fetchPage: (skip: number, limit: number) => Promise<ListPage<Item>>,
  { isSorted }: { readonly isSorted: boolean } = { isSorted: false },
): AsyncGenerator<Item, void, undefined> {
  const seen = new Set<string>();
  // Up to here the list is read again, so a page without anything new is not the end.
  let againUntil = 0;
  let stepsBack = 0;
  for (let page = 0, skip = 0; page < PAGES_MAX; page++) {
    const { items, totalCount } = await fetchPage(skip, limit);
    if (isSorted && skip > 0 && (items.length === 0 || !seen.has(keyOf(items[0]!)))) {
      if (++stepsBack > STEPS_BACK_MAX)
        throw new NonsenseError("The service lists the records in another order each time that it is asked.");
      againUntil = Math.max(againUntil, skip);
      skip = Math.max(0, skip - limit);
      continue;
    }
    const before = seen.size;
    for (const item of items) {
      const key = keyOf(item);
      if (seen.has(key)) continue;
      seen.add(key);
      yield item;
    }
    const end = skip + items.length;
    if (totalCount !== undefined ? end >= totalCount : items.length < Math.min(limit, SMALLEST_PAGE)) return;
    if (seen.size === before && (end > againUntil || items.length <= 1)) return;
    skip = isSorted ? end - 1 : end;
  }
}

/** The whole list in memory, for lists that are bounded by what one organization holds. */
export async function collected<Item>(items: AsyncIterable<Item>): Promise<readonly Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}
