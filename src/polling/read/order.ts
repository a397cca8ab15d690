import type { PreparedPage } from "../../core/prepare-page.ts";
import { DAY_MS } from "../../core/time.ts";
import type { PollContext } from "../context.ts";
import { isRising } from "./pass.ts";

/** A service that answered in another order is not trusted again before this time has passed. */
const DISTRUST_MS = DAY_MS;

/**
 * Looks at the order of a page. Rising order of time was asked for. Where an answer has another order, the time of
 * its last event does not show that all before it was read.
 */
export function noteOrder(context: PollContext, page: PreparedPage, sort: string | undefined): void {
  const { account, alarms, clock, learned } = context;
  const isOtherSort = sort !== undefined && sort.trim() !== "" && sort.trim().toUpperCase() !== "ASC";
  if (!isOtherSort && isRising(page.scanned)) {
    if (learned.unorderedUntilMs === 0 || isUnordered(context)) return;
    learned.unorderedUntilMs = 0;
    alarms.clear("unordered_answers", account);
    return;
  }
  learned.unorderedUntilMs = clock.now() + DISTRUST_MS;
  const how = isOtherSort ? ` Its header X-Sort is ${JSON.stringify(sort.slice(0, 20))}.` : "";
  alarms.raise({
    kind: "unordered_answers",
    subject: account,
    message: `The service does not answer in rising order of time, which was asked for.${how} Each window is read page by page to its end instead of in parallel parts, and a refused token starts it again.`,
    remedy:
      "Reading is slower. Run `tidemark reconcile --since 30d`, or as far back as was read before this alarm. Ask the vendor why the order is not kept, or look for a proxy that changes requests.",
    severity: "warning",
  });
}

/** A page shows events that an earlier page of the same chain of cursors has shown. */
export function noteShuffled({ account, alarms, clock, learned }: PollContext): void {
  learned.unorderedUntilMs = clock.now() + DISTRUST_MS;
  alarms.raise({
    kind: "unordered_answers",
    subject: account,
    message:
      "The service shows events of one page again on a later page of the same list: the order of its answers changes from request to request, so other events may be left out. Such time is compared again until nothing comes twice.",
    remedy:
      "Run `tidemark reconcile --since 30d`, or as far back as was read, until it finds nothing more. Ask the vendor to order events of equal time.",
    severity: "warning",
  });
}

/** Whether the service lately answered in another order than that of time. */
export function isUnordered({ clock, learned }: PollContext): boolean {
  return clock.now() < learned.unorderedUntilMs;
}
