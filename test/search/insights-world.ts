import { hash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Simulator } from "../../simulator/index.ts";
import { startStill, startTime } from "../../simulator/test/support.ts";
import { createFormat } from "../../src/app/sinks.ts";
import { DAY_MS } from "../../src/core/time.ts";
import type { View } from "../../src/core/view.ts";
import { type AccessLog, openAccessLog } from "../../src/search/access/access-log.ts";
import { openTokens, type SearchTokens, type Token } from "../../src/search/access/tokens.ts";
import { insightsRoutes } from "../../src/search/http/insights-routes.ts";
import { pageRoutes } from "../../src/search/http/page-routes.ts";
import { createSearchService } from "../../src/search/service/service.ts";
import { describe } from "../../src/services/index.ts";
import { serve, type TestServer } from "../server/start.ts";
import { pageOf } from "../support/pages.ts";
import { openSearchWorld, type SearchWorld } from "./support.ts";

/** The simulator's events in an archive and a journal, and the Insights interface over both. */
export interface InsightsWorld {
  readonly simulator: Simulator;
  /** As the simulator, with the address of the interface over the archive. */
  readonly archived: Simulator;
  readonly own: SearchWorld;
  readonly server: TestServer;
  readonly tokens: SearchTokens;
  readonly accesses: AccessLog;
  close(): Promise<void>;
}

const ADMINISTRATOR = "an-administrator-of-everything";
const CLOSED_DAYS = 14;

export async function openInsightsWorld(
  events = 6000,
  serviceNow: () => number = () => Date.parse(startTime),
  start: string = startTime,
): Promise<InsightsWorld> {
  const clock = { start };
  const first = await startStill({ events: 0, clock });
  await first.close();
  const simulator = await startStill({
    clock,
    events,
    apiKey: ADMINISTRATOR,
    optionalEndpoints: true,
    imports: { failureShare: 0 },
    keys: [
      { key: "single-tenant", organizations: [first.organizations[1]!.id] },
      { key: "templates-only", scopes: ["applicationtemplates.readonly"] },
    ],
  });
  const own = await openSearchWorld();
  const nowMs = Date.parse(start);
  await fill(simulator, own, nowMs);
  const folder = join(own.world.folder, "tokens");
  addToken(folder, "administrator", ADMINISTRATOR, null);
  addToken(folder, "single", "single-tenant", [first.organizations[1]!.id]);
  const runner = simulator.keys.find(({ role }) => role === "command_runner")!.key;
  addToken(folder, "runner", runner, null, []);
  const tokens = openTokens(folder, Date.now);
  const accesses = openAccessLog(join(own.world.folder, "access"), Date.now);
  const service = createSearchService({
    search: own.search,
    describe,
    facts: {
      ocsf: (event) => String(createFormat("ocsf", {}).encode(event)),
      journey: () => [],
      prove: async () => ({ type: "a proof" }),
    },
    scanMax: 1e9,
    cursorSecret: "a secret of the test",
    nowMs: serviceNow,
  });
  const context = { service, tokens, accesses, timeoutMs: 60_000 };
  const server = await serve({} as View, {
    rawRoutes: [...insightsRoutes(context), ...pageRoutes(context)],
    config: { requestsPerSecond: 10_000 },
  });
  const archived = Object.create(simulator, {
    insightsUrl: { value: server.url.replace(/\/$/, "") },
    control: { value: appending(simulator, own, nowMs) },
  }) as Simulator;
  return {
    simulator,
    archived,
    own,
    server,
    tokens,
    accesses,
    async close() {
      await server.close();
      await simulator.close();
      own.close();
    },
  };
}

/** The still world of the simulator in an archive, for questions with fixed answers. */
export async function openStillArchive(): Promise<{ own: SearchWorld; close(): Promise<void> }> {
  const simulator = await startStill();
  const own = await openSearchWorld();
  await fill(simulator, own, Date.parse(startTime));
  return {
    own,
    async close() {
      await simulator.close();
      own.close();
    },
  };
}

/** The first days are closed, the rest is open, and the portal's own events are too. */
async function fill(simulator: Simulator, own: SearchWorld, nowMs: number): Promise<void> {
  const { world } = own;
  world.nowMs = nowMs;
  const ids = simulator.organizations.map(({ id }) => id);
  const counts = new Map<string, number>();
  for (const organization of ids) {
    const texts = [...simulator.control.allEvents({ organization })].map((bytes) =>
      Buffer.from(bytes).toString(),
    );
    for (const text of texts) {
      const day = (JSON.parse(text) as { timestamp: string }).timestamp.slice(0, 10);
      counts.set(day, (counts.get(day) ?? 0) + 1);
    }
    await world.journal.append(pageOf(texts, { organizations: [organization], fetchedAtMs: nowMs }));
  }
  const portal = [...simulator.control.allEvents({ organization: "provider" })].map((bytes) =>
    Buffer.from(bytes).toString(),
  );
  const { providerId: provider } = simulator;
  await world.journal.append(pageOf(portal, { provider, organizations: [], fetchedAtMs: nowMs }));
  for (const day of [...counts.keys()].sort().slice(0, CLOSED_DAYS))
    await world.seal(ids, day, counts.get(day)!, { askedMs: nowMs - 3 * DAY_MS });
  await world.closeAll();
}

/** Events that a rule adds by hand reach the journal too. */
function appending(simulator: Simulator, own: SearchWorld, nowMs: number): Simulator["control"] {
  const { control } = simulator;
  return Object.create(control, {
    append: {
      value: (organization: string, events: readonly Record<string, unknown>[]) => {
        const texts = events.map((event, at) =>
          JSON.stringify({
            id: hash("sha256", `${JSON.stringify(event)}${at}`, "hex").slice(0, 24),
            timestamp: new Date(nowMs - 1000 + at).toISOString(),
            organization,
            ...event,
          }),
        );
        const page = pageOf(texts, { organizations: [organization], fetchedAtMs: nowMs });
        // Appending is one synchronous transaction; nothing has to be awaited.
        void own.world.journal.append(page);
        return events.length;
      },
    },
  }) as Simulator["control"];
}

function addToken(
  folder: string,
  name: string,
  secret: string,
  organizations: string[] | null,
  rights: Token["rights"] = ["insights", "search"],
): void {
  mkdirSync(folder, { recursive: true });
  const sha256 = hash("sha256", secret, "hex");
  const id = sha256.slice(0, 12);
  const token: Token = {
    ...{ id, name, sha256, organizations, rights },
    ...{ createdMs: 0, expiresMs: null, revokedMs: null },
  };
  writeFileSync(join(folder, `${id}.json`), JSON.stringify(token));
}
