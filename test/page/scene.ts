import { silentLog } from "../../src/core/log.ts";
import type { RatesView } from "../../src/core/view/status.ts";
import type { LiveView } from "../../src/core/view.ts";
import type { RoutesContext } from "../../src/imports/route-context.ts";
import { importRoutes } from "../../src/imports/routes.ts";
import { openImportStore } from "../../src/imports/store/open.ts";
import { takePart } from "../../src/imports/take-part.ts";
import { createView } from "../../src/journal/view/view.ts";
import { serve, type TestServer } from "../server/start.ts";
import { HOUR_MS, liveOf, type TestState } from "../server/state.ts";

/** A day's rhythm in an hour, so that the chart has something to show; the same every time. */
export function wavyRates(nowMs: number, sinks: readonly string[]): RatesView {
  const buckets = 720;
  const received = Array.from({ length: buckets }, (_, at) =>
    Math.max(
      0,
      Math.round((60 + 34 * Math.sin(at / 60) + 12 * Math.sin(at / 7.3) + ((at * 7919) % 13)) * 10) / 10,
    ),
  );
  const sent = Object.fromEntries(
    sinks.map((name, index) => [
      name,
      received.map((value, at) =>
        index > 0 && at > 600 ? 0 : (received[Math.max(0, at - index - 1)] ?? value),
      ),
    ]),
  );
  return {
    bucketMs: 5000,
    fromMs: Math.floor(nowMs / 5000) * 5000 - (buckets - 1) * 5000,
    received,
    live: received,
    sent,
  };
}

/** A server over the state, with import jobs, a chart's worth of rates and what a running process knows. */
export function serveScene(
  state: TestState,
  more: { readonly live?: Partial<LiveView>; readonly config?: Parameters<typeof serve>[1] } = {},
): Promise<TestServer> {
  const { clock, db } = state;
  const live = liveOf(clock, { rates: () => wavyRates(clock.now(), ["lake", "siem"]), ...more.live });
  const store = openImportStore(db);
  if (store.list({}).length === 0) addJobs(state);
  const context = { store, clock, definitions: [], accounts: ["acme"] } as unknown as RoutesContext;
  return serve(createView(db, live, state.options), { routes: importRoutes(context), ...more.config });
}

function addJobs({ db, clock }: TestState): void {
  const store = openImportStore(db);
  const job = store.jobs.create({
    import: "nightly-hr",
    account: "acme",
    organization: null,
    kind: "application",
    source: "hr-system",
    request: {},
    origin: "schedule",
    requestedBy: "schedule",
    requestedMs: clock.now() - HOUR_MS,
    answerByMs: clock.now(),
    quietAfterMs: HOUR_MS,
    finishAfterMs: HOUR_MS,
    sender: "run:test",
  });
  const { id } = job;
  const part = store.parts.plan(id, "acme", clock.now() - HOUR_MS);
  takePart({ store, log: silentLog }, job, part, "5f0c5f0c", clock.now() - HOUR_MS);
  const user = db.prepare(
    "INSERT INTO job_users (job, username, outcome, told_by) VALUES (?, ?, ?, 'events')",
  );
  for (const [outcome, count] of Object.entries({ created: 24, updated: 61, failed: 3, pending: 12 }))
    for (let at = 0; at < count; at++) user.run(id, `${outcome}-${at}`, outcome);
}
