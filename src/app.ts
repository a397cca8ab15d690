import { type Account, openAccount } from "./app/account.ts";
import { type Actions, createActions, takeUpRequests } from "./app/actions.ts";
import {
  DRIFT,
  definitionOf,
  formatOf,
  ownConfig,
  placeReaders,
  sinkConfigs,
  TRACKER,
  wantsOf,
} from "./app/sinks.ts";
import { createSpaceKeeper } from "./app/space.ts";
import { remoteActions, viewOptions } from "./app/view.ts";
import type { Config } from "./config/schema.ts";
import { createAlarms } from "./core/alarms.ts";
import { type Clock, systemClock } from "./core/clock.ts";
import { isDiskTrouble, UsageError } from "./core/errors.ts";
import type { Log } from "./core/log.ts";
import { createMetrics, silentMetrics } from "./core/metrics.ts";
import type { Step } from "./core/step.ts";
import { createTraces } from "./core/traces.ts";
import type { LiveView, View } from "./core/view.ts";
import { createWake } from "./core/wake.ts";
import { createDelivery, type Delivery } from "./delivery/deliver.ts";
import { createFollower, type Follower } from "./delivery/follow.ts";
import { importSourceOf } from "./directory/import-source.ts";
import { createImports } from "./imports/imports.ts";
import { isAsRestored } from "./journal/backup.ts";
import { openState, type State } from "./journal/database.ts";
import { keepUnattributed } from "./journal/dead-letters.ts";
import { createDriftStore } from "./journal/drift.ts";
import { createJournal, type SqliteJournal } from "./journal/journal.ts";
import { takeLock } from "./journal/lock.ts";
import { createRequests } from "./journal/requests.ts";
import { createRoster } from "./journal/roster.ts";
import { createSpace } from "./journal/space.ts";
import { createView } from "./journal/view.ts";
import { storeLive } from "./journal/view-live.ts";
import { createPreparer } from "./polling/preparer.ts";
import { createSlots } from "./polling/slots.ts";
import { registerGauges } from "./server/gauges.ts";
import { countOrganizations } from "./server/organization-metrics.ts";
import { createRates } from "./server/rates.ts";
import { createDrift } from "./services/drift.ts";
import type { Telemetry } from "./telemetry.ts";
import { VERSION } from "./version.ts";

export interface AppOptions {
  readonly config: Config;
  readonly log: Log;
  readonly stdout: NodeJS.WritableStream;
  /** Where what is measured goes; without it nothing is measured, and no server is started. */
  readonly telemetry?: Telemetry;
  readonly clock?: Clock;
  /** Opened only to bring the state in line with the sinks: that they do not fit is no error then. */
  readonly mending?: boolean;
}

/** Everything that works with one state file, put together; the only place that knows all parts. */
export interface App {
  readonly config: Config;
  readonly db: State;
  readonly journal: SqliteJournal;
  readonly accounts: readonly Account[];
  readonly deliveries: readonly Delivery[];
  readonly actions: Actions;
  readonly alarms: ReturnType<typeof createAlarms>;
  readonly imports: ReturnType<typeof createImports>;
  readonly view: View;
  /** Works until the signal aborts; `started` is told the page's address, where the config has a server. */
  run(signal: AbortSignal, started?: (url: string | undefined) => void): Promise<void>;
  /** Reads everything up to now, delivers it and returns. */
  once(signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

const IMPORT_STEP_MS = 1000;
const STORE_LIVE_MS = 5000;
const PAGES_DECODED = 2;
const BREATH_MS = 20;
const BREATHS_MAX = 10;

/** Takes the lock of the state file; refused when another process has it. */
export async function openApp(options: AppOptions): Promise<App> {
  const { config, clock = systemClock } = options;
  const lock = takeLock(config.state);
  let db: State | undefined;
  try {
    db = openState(config.state);
    const journal = createJournal(db, clock);
    if (!options.mending) placeReaders(config, journal);
    return await assemble({ ...options, clock }, db, journal, lock);
  } catch (error) {
    db?.close();
    lock.release();
    throw error;
  }
}

async function assemble(
  options: AppOptions & { readonly clock: Clock },
  db: State,
  untraced: SqliteJournal,
  lock: { release(): void },
): Promise<App> {
  const { config, log, telemetry, clock, stdout } = options;
  const alarms = createAlarms(clock, log);
  const measured = telemetry === undefined ? silentMetrics : createMetrics(telemetry.meter);
  const rates = createRates(measured, clock);
  const { metrics } = rates;
  const wake = createWake(clock);
  const traces = telemetry?.tracer === undefined ? undefined : createTraces(telemetry.tracer);
  const journal = traces === undefined ? untraced : { ...untraced, ...traces.journal(untraced) };
  journal.onAppend(() => wake.wake());
  let draining = false;

  const retentionMs = Math.max(...config.accounts.map((account) => account.retention));
  const keeper = createSpaceKeeper(
    createSpace(db, config.state, config.journal.budget),
    clock,
    alarms,
    retentionMs,
  );
  const slots = createSlots(config.polling.pagesInFlight);
  const preparer = traces === undefined ? createPreparer() : traces.preparer(createPreparer());
  const roster = countOrganizations(createRoster(db), metrics, config.server?.organizationLabels ?? 0);
  const accounts = config.accounts.map((account) =>
    openAccount(account, {
      journal,
      roster,
      clock,
      alarms,
      metrics,
      log,
      slots,
      preparer,
      traces,
      polling: config.polling,
      keepUnattributed: (stream, bytes) => keepUnattributed(db, account.name, stream.id, bytes, clock.now()),
      room,
    }),
  );

  /** Room on disk; and a short breath where sinks are a little behind, so that they find the pages still decoded. */
  async function room(signal: AbortSignal): Promise<void> {
    await keeper.room(signal);
    for (let turn = 0; turn < BREATHS_MAX && isLittleBehind(); turn++) await wake.wait(BREATH_MS, signal);
  }

  function isLittleBehind(): boolean {
    const end = journal.end().page;
    const running = deliveries
      .map((delivery) => delivery.status())
      .filter(({ state }) => state === "running");
    return [...running.map(({ position }) => position.page), ...followers.map(({ at }) => at.page)].some(
      (page) => {
        const behind = end - page;
        return behind > PAGES_DECODED && behind < 4 * PAGES_DECODED;
      },
    );
  }

  const deliveries: Delivery[] = [];
  for (const sink of options.mending ? [] : sinkConfigs(config)) {
    const reader = await journal.reader(sink.name);
    deliveries.push(
      createDelivery({
        name: sink.name,
        definition: traces === undefined ? definitionOf(sink) : traces.sink(sink.name, definitionOf(sink)),
        config: ownConfig(sink),
        format: formatOf(sink),
        reader,
        journal: journal.id,
        wants: wantsOf(sink),
        clock,
        log: log.child({ sink: sink.name }),
        alarms,
        metrics,
        stdout,
        wake,
        end: () => journal.end(),
        isAsRestored: () => isAsRestored(db, sink.name),
        draining: () => draining,
      }),
    );
  }

  const liveUntilMs = db
    .prepare(
      "SELECT MIN(to_ms) FROM windows WHERE live = 1 AND stream IN (SELECT id FROM streams WHERE account = ?)",
    )
    .pluck();
  const imports = createImports({
    db,
    definitions: config.imports,
    source: (name) => {
      const account = accounts.find((candidate) => candidate.name === name);
      if (account === undefined) throw new UsageError(`There is no account "${name}" in the config.`);
      return importSourceOf(account.management);
    },
    accounts: accounts.map((account) => account.name),
    readUntilMs: (name) => liveUntilMs.get(name) as number | undefined,
    clock,
    log,
  });
  const followers = [await tracker(), ...(config.drift ? [await driftCounter()] : [])];
  if (!config.drift) journal.readers.forget(DRIFT);
  const actions = createActions({ config, db, journal, accounts, deliveries, clock });
  const requests = createRequests(db, clock);
  const live: LiveView = {
    startedMs: clock.now(),
    alarms: () => alarms.list(),
    accounts: () => accounts.map(({ name, poller }) => ({ name, ...poller.status() })),
    deliveries: () => deliveries.map((delivery) => delivery.status()),
    rates: rates.view,
  };
  const view = createView(db, live, viewOptions(config, clock));

  async function tracker(): Promise<Follower> {
    const reader = await journal.reader(TRACKER);
    return createFollower({
      reader,
      clock,
      wants: (event) => event.correlationId !== undefined,
      apply: imports.apply,
      commit: (to) => reader.commit(to, undefined),
    });
  }

  async function driftCounter(): Promise<Follower> {
    const reader = await journal.reader(DRIFT);
    const drift = createDrift();
    const store = createDriftStore(db);
    const stored = store.rows();
    drift.load(stored);
    const counted = new Map(
      stored.map((row) => [JSON.stringify([row.service, row.kind, row.path, row.detail]), row.count]),
    );
    return createFollower({
      reader,
      clock,
      wants: () => true,
      apply: (events) => {
        for (const event of events) drift.observe(event);
      },
      async commit(to) {
        const rows = drift.flush();
        for (const row of rows) {
          const key = JSON.stringify([row.service, row.kind, row.path, row.detail]);
          const grown = row.count - (counted.get(key) ?? 0);
          counted.set(key, row.count);
          metrics.add("tidemark_drift_events_total", grown, { service: row.service, kind: row.kind });
        }
        // Counts and position move together, so that a crash counts nothing twice.
        store.save(rows, () => journal.readers.createAt(DRIFT, to));
      },
    });
  }

  /** For commands beside this process; each time is a synced commit, so not every second. */
  function storeNowAndThen(): void {
    if (clock.now() - storedMs < STORE_LIVE_MS) return;
    storedMs = clock.now();
    storeLive(db, live, storedMs);
  }
  let storedMs = 0;

  async function serve(signal: AbortSignal) {
    if (telemetry === undefined) return undefined;
    const gauges = registerGauges(measured, view, clock);
    if (config.server === undefined) return undefined;
    const { startServer } = await import("./server/server.ts");
    return startServer({
      config: config.server,
      version: VERSION,
      view,
      actions: remoteActions(actions, db, journal, deliveries, accounts, signal),
      routes: imports.routes,
      clock,
      log,
      signal,
      async metricsText() {
        await gauges.refresh();
        return telemetry.metricsText();
      },
    });
  }

  async function follow(step: Step, signal: AbortSignal, until: () => boolean): Promise<void> {
    while (!signal.aborted) {
      const mark = wake.mark();
      if ((await step(signal).catch(waitOutDisk)) === "again") {
        // Sinks come first: a follower gives the others their turn after every bite.
        await new Promise((resolve) => setImmediate(resolve));
        continue;
      }
      if (until()) return;
      await wake.waitSince(mark, 1000, signal);
    }
  }

  async function everySecond(
    signal: AbortSignal,
    work: () => Promise<void> | void,
    until = () => false,
  ): Promise<void> {
    while (!signal.aborted && !until()) {
      await (async () => work())().catch(waitOutDisk);
      await clock.sleep(IMPORT_STEP_MS, signal).catch(() => {});
    }
  }

  return {
    config,
    db,
    journal,
    accounts,
    deliveries,
    actions,
    alarms,
    imports,
    view,
    async run(signal, started) {
      const server = await serve(signal);
      started?.(server?.url);
      await together(signal, (stop) => [
        ...accounts.map((account) => account.poller.run(stop)),
        ...deliveries.map((delivery) => delivery.run(stop)),
        ...followers.map(({ step }) => follow(step, stop, () => false)),
        everySecond(stop, () => keeper.turn()),
        everySecond(stop, storeNowAndThen),
        everySecond(stop, () => takeUpRequests(requests, actions, log, stop)),
        everySecond(stop, async () => void (await imports.step(stop))),
      ]).finally(() => server?.close());
    },
    async once(signal) {
      await together(signal, (stop) => [
        Promise.all(accounts.map((account) => account.poller.once(stop))).then(() => {
          draining = true;
          wake.wake();
        }),
        ...deliveries.map((delivery) => delivery.drain(stop)),
        ...followers.map(({ step }) => follow(step, stop, () => draining)),
        everySecond(
          stop,
          () => keeper.turn(),
          () => draining,
        ),
      ]);
    },
    async close() {
      await Promise.allSettled(deliveries.map((delivery) => delivery.close()));
      await Promise.allSettled(accounts.map((account) => account.close()));
      await preparer.close();
      await journal.close();
      db.close();
      lock.release();
    },
  };
}

/** A full disk is told by the alarms of polling and of the journal's room; what could not be stored is tried again. */
function waitOutDisk(error: unknown): "idle" {
  if (isDiskTrouble(error)) return "idle";
  throw error;
}

/** Runs parts side by side: the first that fails stops the others, and its error is the one that is told. */
async function together(
  signal: AbortSignal,
  start: (stop: AbortSignal) => readonly Promise<void>[],
): Promise<void> {
  const failed = new AbortController();
  const stop = AbortSignal.any([signal, failed.signal]);
  const results = await Promise.allSettled(
    start(stop).map((part) =>
      part.catch((error: unknown) => {
        if (!stop.aborted) failed.abort(error);
        throw error;
      }),
    ),
  );
  if (failed.signal.aborted) throw failed.signal.reason;
  const rejected = results.find((result) => result.status === "rejected" && !signal.aborted);
  if (rejected?.status === "rejected") throw rejected.reason;
}
