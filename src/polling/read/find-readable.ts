import { UNDATED_MS } from "../../core/prepare-page.ts";
import { type PollContext, timeText } from "../context.ts";
import type { PageRequest, Served } from "./fetch-page.ts";
import { tried } from "./try-page.ts";

/** So many events behind an unreadable one are asked for, one by one. */
const BEHIND_MAX = 20;
/** Requests begin at whole seconds. */
const RESOLUTION_MS = 1000;

/** A readable event; `timeMs` where it is behind the unreadable one, and has a time. */
export interface Readable {
  readonly timeMs: number | undefined;
}

/**
 * Finds a readable event of the stream, which proves that an unreadable one is at fault and not the service. Undefined:
 * there is none.
 *
 * 1. The events right behind it, one by one. They also say where an event without a name ends. Those that are not
 *    readable either need no search of their own when their turn comes.
 * 2. The first event of the request, if this one is further on.
 * 3. Events behind, at times found by halving: where an event is unreadable, readable ones may come later, and where
 *    there is none, they can only be before. So any number of them costs at most one request for each halving.
 */
export async function findReadable(
  context: PollContext,
  request: PageRequest,
  searchAfter: string,
): Promise<Readable | undefined> {
  const { passed } = context.learned;
  const { id } = request.window.stream;
  const known = passed.get(id);
  if (known !== undefined && known.count > 0 && known.cursor === request.cursor) {
    passed.set(id, { ...known, cursor: searchAfter, count: known.count - 1 });
    return { timeMs: known.readableMs };
  }
  const { count, readable } = await readableBehind(context, request, searchAfter);
  const found =
    readable ?? (await readableFirst(context, request)) ?? (await readableLater(context, request));
  if (found === undefined) passed.delete(id);
  else passed.set(id, { cursor: searchAfter, count, readableMs: found.timeMs });
  return found;
}

/** `count`: how many unreadable events were on the way. */
async function readableBehind(
  context: PollContext,
  request: PageRequest,
  searchAfter: string,
): Promise<{ readonly count: number; readonly readable?: Readable }> {
  let cursor: string | undefined = searchAfter;
  let count = 0;
  for (; count < BEHIND_MAX && cursor !== undefined; count++) {
    const behind = await tried(context, { ...request, cursor });
    if ("served" in behind) return { count, readable: readableOf(behind.served) };
    cursor = behind.searchAfter;
  }
  return { count };
}

async function readableFirst(context: PollContext, request: PageRequest): Promise<Readable | undefined> {
  if (request.cursor === null) return undefined;
  const first = await tried(context, { ...request, cursor: null });
  if ("error" in first) return undefined;
  first.served.lease.release();
  return { timeMs: undefined };
}

/** Up to now: events behind the window count too. */
async function readableLater(context: PollContext, request: PageRequest): Promise<Readable | undefined> {
  let fromMs = Date.parse(request.query.startTime);
  let toMs = context.serviceClock.now();
  while (toMs - fromMs > RESOLUTION_MS) {
    const startMs = Math.floor((fromMs + toMs) / 2);
    const query = { ...request.query, startTime: timeText(startMs), endTime: undefined };
    const later = await tried(context, { ...request, query, cursor: null });
    if ("error" in later) {
      fromMs = startMs;
      continue;
    }
    const isEmpty = later.served.page.scanned.count === 0;
    const found = readableOf(later.served);
    if (!isEmpty) return found;
    toMs = startMs;
  }
  return undefined;
}

function readableOf({ page, lease }: Served): Readable {
  const timeMs = page.scanned.count > 0 ? page.timesMs[0] : undefined;
  lease.release();
  return { timeMs: timeMs === UNDATED_MS ? undefined : timeMs };
}
