import type { AskService, ReturnedEvent } from "../archive/evidence/reconcile.ts";
import type { AccountConfig, Config } from "../config/schema.ts";
import type { Clock } from "../core/clock.ts";
import { UsageError } from "../core/errors.ts";
import { IDENTITY_BYTES, preparePage } from "../core/prepare-page.ts";
import { FIELD, fieldText } from "../core/scanner.ts";
import { DirectoryError } from "../directory/errors.ts";
import type { InsightsClient, InsightsScope, Page } from "../directory/insights.ts";
import { openClients } from "./account.ts";
import { ownerScope } from "./count-events.ts";

const IDENTITY_FIELDS = ["id", "timestamp", "service", "event_type", "organization"];
const PAGE_EVENTS = 10_000;
const ATTEMPTS = 6;
const TRANSIENT = new Set(["throttled", "unavailable", "cut_off"]);

/**
 * Asks the service for the identities of an organization's events, with the accounts of the config. Independent of
 * polling: it shares neither its windows nor the journal.
 */
export function createServiceLook(config: Config, clock: Clock): { ask: AskService; close(): Promise<void> } {
  const clients = new Map(
    config.accounts.map((account) => [account.name, { account, ...openClients(account, clock, 2) }]),
  );

  function clientOf(accounts: readonly string[]) {
    const found = accounts.map((name) => clients.get(name)).find((client) => client !== undefined);
    if (found !== undefined) return found;
    throw new UsageError(
      `The config has none of the accounts that were asked (${accounts.join(", ")}): the service cannot be asked again.`,
    );
  }

  async function* ask(
    accounts: readonly string[],
    organization: string,
    fromMs: number,
    toMs: number,
    signal: AbortSignal,
  ): AsyncIterable<ReturnedEvent> {
    const { account, insights } = clientOf(accounts);
    const look: Look = { account, insights, clock, organization, fromMs, toMs, signal };
    const found: ReturnedEvent[] = [];
    let isWhole = true;
    for await (const event of walk(look, IDENTITY_FIELDS)) {
      // Without an id the identity is made of all the bytes, so the whole events are needed.
      if (event.id === "") {
        isWhole = false;
        break;
      }
      found.push(event);
    }
    if (isWhole) yield* found;
    else yield* walk(look, undefined);
  }

  return {
    ask,
    async close() {
      await Promise.all([...clients.values()].map((client) => client.close()));
    },
  };
}

interface Look {
  readonly account: AccountConfig;
  readonly insights: InsightsClient;
  readonly clock: Clock;
  readonly organization: string;
  readonly fromMs: number;
  readonly toMs: number;
  readonly signal: AbortSignal;
}

async function* walk(look: Look, fields: readonly string[] | undefined): AsyncIterable<ReturnedEvent> {
  const { fromMs, toMs } = look;
  const scope = ownerScope(look.account, look.organization);
  const attribution = { organizations: scope.organizations ?? [], provider: scope.provider ?? null };
  let searchAfter: string | undefined;
  for (;;) {
    const page = await askAgain(look, scope, fields, searchAfter);
    const { bytes, lease } = await page.body();
    let count: number;
    try {
      const prepared = preparePage(bytes, attribution);
      ({ count } = prepared.scanned);
      for (let index = 0; index < count; index++) {
        const timeMs = prepared.timesMs[index]!;
        if (timeMs < fromMs || timeMs >= toMs) continue;
        const at = index * IDENTITY_BYTES;
        yield {
          identity: prepared.identities.toString("hex", at, at + IDENTITY_BYTES),
          id: fieldText(prepared.scanned, index, FIELD.id) ?? "",
        };
      }
    } finally {
      lease.release();
    }
    const { limit } = page.head;
    // Only a page that is shorter than both limits is the last one (R31).
    const isLast = count === 0 || (limit !== undefined && count < Math.min(limit, PAGE_EVENTS));
    if (isLast || page.head.searchAfter === undefined) return;
    searchAfter = page.head.searchAfter;
  }
}

async function askAgain(
  { account, insights, clock, fromMs, toMs, signal }: Look,
  scope: InsightsScope,
  fields: readonly string[] | undefined,
  searchAfter: string | undefined,
): Promise<Page> {
  const query = {
    service: account.services,
    startTime: new Date(fromMs).toISOString(),
    endTime: new Date(toMs).toISOString(),
    limit: PAGE_EVENTS,
    sort: "ASC",
    fields,
  } as const;
  for (let attempt = 1; ; attempt++) {
    try {
      return await insights.events(query, scope, { searchAfter, signal });
    } catch (error) {
      const isTransient = error instanceof DirectoryError && TRANSIENT.has(error.kind);
      if (!isTransient || attempt === ATTEMPTS) throw error;
      await clock.sleep(error.retryAfterMs ?? 1000 * 2 ** attempt, signal);
    }
  }
}
