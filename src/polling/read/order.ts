import type { Distrust } from "../../core/journal.ts";
import type { PreparedPage } from "../../core/prepare-page.ts";
import { DAY_MS } from "../../core/time.ts";
import type { PollContext } from "../context.ts";
import { isRising } from "./pass.ts";

/** A service that answered in another order is not trusted again before a day has passed. */
const DISTRUST_MS = DAY_MS;
/** A time that is later by less is not stored: each page would be a commit more. */
const STEP_MS = DAY_MS / 24;

/**
 * Looks at the order of a page. Rising order of time was asked for. Where an answer has another order, the time of
 * its last event does not show that all before it was read.
 */
export async function noteOrder(
  context: PollContext,
  page: PreparedPage,
  sort: string | undefined,
): Promise<void> {
  const { account, alarms, journal, learned } = context;
  const isOtherSort = sort !== undefined && sort.trim() !== "" && sort.trim().toUpperCase() !== "ASC";
  if (isOtherSort || !isRising(page.scanned))
    return distrust(context, { cause: "order", ...(isOtherSort && { sort: sort.slice(0, 20) }) });
  if (learned.distrust === undefined || isUnordered(context)) return;
  // First: where it cannot be written, the page is read again, and this is tried again with it.
  await journal.setDistrust(account, undefined);
  learned.distrust = undefined;
  alarms.clear("unordered_answers", account);
}

/** A page shows events that an earlier page of the same chain of cursors has shown. */
export function noteShuffled(context: PollContext): Promise<void> {
  return distrust(context, { cause: "repeats" });
}

/** What was found out before a restart still counts. */
export async function recallOrder(context: PollContext): Promise<void> {
  const { account, journal, learned } = context;
  learned.distrust ??= await journal.distrust(account);
  if (learned.distrust !== undefined) warn(context, learned.distrust);
}

/** Whether the service lately answered in another order than that of time. */
export function isUnordered({ clock, learned }: PollContext): boolean {
  return learned.distrust !== undefined && clock.now() < learned.distrust.untilMs;
}

async function distrust(context: PollContext, found: Omit<Distrust, "untilMs">): Promise<void> {
  const { account, clock, journal, learned } = context;
  const before = learned.distrust;
  const untilMs = clock.now() + DISTRUST_MS;
  if (before?.cause === found.cause && before.sort === found.sort && before.untilMs >= untilMs) return;
  const next = { ...found, untilMs: untilMs + STEP_MS };
  await journal.setDistrust(account, next);
  learned.distrust = next;
  warn(context, next);
}

function warn({ account, alarms }: PollContext, { cause, sort }: Distrust): void {
  const how = sort === undefined ? "" : ` Its header X-Sort is ${JSON.stringify(sort)}.`;
  const texts = {
    order: {
      message: `The service does not answer in rising order of time, which was asked for.${how} Each window is read page by page to its end instead of in parallel parts, and a refused token starts it again.`,
      remedy:
        "Reading is slower. Run `tidemark reconcile --since 30d`, or as far back as was read before this alarm. Ask the vendor why the order is not kept, or look for a proxy that changes requests.",
    },
    repeats: {
      message:
        "The service shows events of one page again on a later page of the same list: the order of its answers changes from request to request, so other events may be left out. Such time is compared again until nothing comes twice.",
      remedy:
        "Run `tidemark reconcile --since 30d`, or as far back as was read, until it finds nothing more. Ask the vendor to order events of equal time.",
    },
  };
  alarms.raise({ kind: "unordered_answers", subject: account, ...texts[cause], severity: "warning" });
}
