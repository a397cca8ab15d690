import { type Account, openAccount } from "./app/account.ts";
import { createActions } from "./app/actions.ts";
import { archivePolling } from "./app/archive-polling.ts";
import { archiveConfigs, openRunningArchive, type RunningArchive } from "./app/archives.ts";
import { guardedImports, guardedSink, type LaneParts } from "./app/cluster/lane-parts.ts";
import { openFollowers, TRACKER } from "./app/followers.ts";
import { createLoops, together } from "./app/loops.ts";
import { pullAndDrain } from "./app/once.ts";
import { openOwnState } from "./app/own-state.ts";
import { carryOutRequests, createUnderWay } from "./app/requests.ts";
import { openSearchProcess, type SearchProcess } from "./app/search-process.ts";
import { serve } from "./app/serve.ts";
import { importRefusal } from "./app/shard.ts";
import { definitionOf, formattingOf, ownConfig, placeReaders, routingOf, sinkConfigs } from "./app/sinks.ts";
import { viewOptions } from "./app/view.ts";
import { createSinkWatch } from "./app/watch-sinks.ts";
import { fitWindowTimes } from "./app/window-times.ts";
import type { Config } from "./config/schema.ts";
import type { Actions } from "./core/actions.ts";
import { createAlarms } from "./core/alarms.ts";
import { type BufferPool, createBufferPool } from "./core/buffer-pool.ts";
import { type Clock, systemClock } from "./core/clock.ts";
import { UsageError } from "./core/errors.ts";
import type { Log } from "./core/log.ts";
import { createMetrics, silentMetrics } from "./core/metrics.ts";
import type { Encoder } from "./core/page-slice.ts";
import type { SinkDefinition } from "./core/sink.ts";
import type { Traces } from "./core/traces.ts";
import type { LiveView, View } from "./core/view.ts";
import { createWake } from "./core/wake.ts";
import { createDelivery, type Delivery } from "./delivery/deliver.ts";
import { createEncodedMemory } from "./delivery/encoded-memory.ts";
import { importSourceOf } from "./directory/import-source.ts";
import type { RequestDispatcher } from "./directory/transport.ts";
import { createImports } from "./imports/create-imports.ts";
import { isAsRestored, restoredCopy, restoredMs } from "./journal/backup.ts";
import { createCheckpoints } from "./journal/checkpoints.ts";
import { createRequests } from "./journal/command-queue.ts";
import type { State } from "./journal/database.ts";
import { keepUnattributed } from "./journal/dead-letters.ts";
import { createSpaceKeeper } from "./journal/disk-budget.ts";
import { createJournal, type SqliteJournal } from "./journal/journal.ts";
import { takeLock } from "./journal/lock.ts";
import { createPageGate } from "./journal/page-gate.ts";
import { createRoster } from "./journal/roster.ts";
import { claimShard, earlierJournals } from "./journal/shard.ts";
import { createSpace } from "./journal/space.ts";
import { forgetLive, storeLive } from "./journal/view/live.ts";
import { createView } from "./journal/view/view.ts";
import { createPreparer, type Preparer } from "./polling/prepare/preparer.ts";
import { countOrganizations } from "./server/organization-metrics.ts";
import { createRates } from "./server/rates.ts";
import type { Telemetry } from "./telemetry.ts";

export interface AppOptions {
  readonly config: Config;
  readonly log: Log;
  readonly stdout: NodeJS.WritableStream;
  /** Where what is measured goes; without it nothing is measured, and no server is started. */
  readonly telemetry?: Telemetry;
  readonly clock?: Clock;
  /** One that is ready already. */
  readonly preparer?: Preparer;
  /** Encodes large pages in another thread. */
  readonly encoder?: Encoder | undefined;
  /** Takes the requests to the service instead of the network; the simulation gives one. */
  readonly dispatcher?: RequestDispatcher;
  /** Changes how a sink is opened; the simulation gives the file sink another disk. */
  readonly sinkOf?: (definition: SinkDefinition) => SinkDefinition;
  /** Fills the memory of pages with a pattern when its last lease ends; for tests. */
  readonly poisonMemory?: boolean;
  /** A lane of a cluster: its state is a copy of its changelog. */
  readonly lane?: LaneParts;
  /** How the process is started that answers searches and keeps the index; without it there is neither. */
  readonly searchProcess?: SearchProcess;
  /** Opened only to bring the state in line with the sinks: that they do not fit is no error then. */
  readonly repairing?: boolean;
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
  /** Requests of commands, and of other machines of a cluster. */
  readonly requests: ReturnType<typeof createRequests>;
  /** Works until the signal aborts; `started` receives the page's address, where the config has a server. */
  run(signal: AbortSignal, started?: (url: string | undefined) => void): Promise<void>;
  /** Reads everything up to now, delivers it and returns. */
  once(signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

const SECOND_MS = 1000;

/** Takes the lock of the state file; refused when another process has it. */
export async function openApp(options: AppOptions): Promise<App> {
  const { config, clock = systemClock } = options;
  const lock = takeLock(config.state);
  let db: State | undefined;
  try {
    db = await (options.lane?.openState(config.state) ?? openOwnState(config.state, options.log));
    await claimShard(db, config.state, config.shard);
    await forgetLive(db);
    const memory = options.lane?.memory ?? createBufferPool({ clock, poison: options.poisonMemory ?? false });
    const preparer = options.preparer ?? createPreparer(clock);
    const journal = createJournal(db, clock, memory, preparer, options.lane?.damagedPage);
    if (!options.repairing) await placeReaders(config, journal, options.log);
    await fitWindowTimes(db, config);
    return await assemble({ ...options, clock, memory, preparer }, db, journal, lock);
  } catch (error) {
    db?.close();
    lock.release();
    throw error;
  }
}

async function assemble(
  options: AppOptions & { readonly clock: Clock; readonly memory: BufferPool; readonly preparer: Preparer },
  db: State,
  untraced: SqliteJournal,
  lock: { release(): void },
): Promise<App> {
  const { config, log, telemetry, clock, stdout, memory } = options;
  const alarms = createAlarms(clock, log);
  const measured =
    options.lane?.measured ?? (telemetry === undefined ? silentMetrics : createMetrics(telemetry.meter));
  const rates = createRates(measured, clock);
  const { metrics } = rates;
  const wake = createWake(clock);
  const traces = telemetry?.tracer === undefined ? undefined : await tracesOf(telemetry.tracer);
  const journal = traces === undefined ? untraced : { ...untraced, ...traces.journal(untraced) };
  journal.onAppend(() => wake.wake());
  const checkpoints = options.lane === undefined ? createCheckpoints(db, config.state, log) : undefined;
  journal.onAppend(() => checkpoints?.look());
  const loops = createLoops(clock, wake);
  let draining = false;
  const isDraining = () => draining;
  const retentionMs = Math.max(...config.accounts.map((account) => account.retention));
  const space = createSpace(db, config.state, config.journal.budget);
  const keeper = createSpaceKeeper(space, clock, alarms, retentionMs);
  const gate = createPageGate({
    pagesInFlight: config.polling.pagesInFlight,
    disk: keeper,
    memory: { ...memory, dropOldest: untraced.pages.dropOldest },
    readers: untraced.pages,
    clock,
  });
  const preparer = traces === undefined ? options.preparer : traces.preparer(options.preparer);
  const roster = countOrganizations(
    rates.countLive(createRoster(db)),
    metrics,
    config.server?.organizationLabels ?? 0,
  );
  const usedShare = () => space.usedBytes() / config.journal.budget;
  const archives: RunningArchive[] = [];
  const accounts = config.accounts.map((account) =>
    openAccount(account, {
      ...{ journal, roster, clock, alarms, metrics, log, gate, preparer, memory, traces },
      shard: config.shard,
      polling: { ...archivePolling(config, archives, usedShare), restored: restoredCopy(db) },
      dispatcher: options.dispatcher,
      lane: options.lane,
      keepUnattributed: (stream, bytes, reason) =>
        keepUnattributed(db, account.name, stream.id, bytes, reason, clock.now()),
    }),
  );

  const deliveries: Delivery[] = [];
  const encodedMemory = createEncodedMemory();
  const earlier = earlierJournals(db);
  for (const sink of options.repairing ? [] : sinkConfigs(config)) {
    const reader = await journal.reader(sink.name);
    const own = options.sinkOf?.(definitionOf(sink)) ?? definitionOf(sink);
    const definition = options.lane === undefined ? own : guardedSink(own, options.lane.beforeEffect);
    deliveries.push(
      createDelivery({
        poisonMemory: options.poisonMemory,
        name: sink.name,
        definition: traces === undefined ? definition : traces.sink(sink.name, definition),
        config: ownConfig(sink),
        ...formattingOf(sink, alarms, options.encoder),
        journal: journal.id,
        earlierJournals: earlier,
        ...routingOf(sink),
        log: log.child({ sink: sink.name }),
        ...{ reader, clock, alarms, metrics, stdout, wake, encodedMemory },
        end: () => journal.end(),
        isAsRestored: () => isAsRestored(db, sink.name),
        draining: isDraining,
      }),
    );
  }

  for (const own of options.repairing ? [] : archiveConfigs(config)) {
    const parts = { db, journal: journal.id, retentionMs, clock, alarms, metrics, log, usedShare, accounts };
    archives.push(await openRunningArchive(config, own, { ...parts, memory, lane: options.lane }));
  }

  const imports = createImports({
    db,
    definitions: config.imports,
    refusal: importRefusal(config),
    numbering: options.lane && config.shard,
    source: (name) => {
      const account = accounts.find((candidate) => candidate.name === name);
      if (account === undefined) throw new UsageError(`There is no account "${name}" in the config.`);
      const source = importSourceOf(account.management);
      return options.lane === undefined ? source : guardedImports(source, options.lane.beforeEffect);
    },
    accounts: accounts.map((account) => account.name),
    readUntilMs: untraced.readUntil(TRACKER),
    restoredMs: restoredMs(db),
    ...{ clock, log, alarms },
  });
  const following = { config, journal, db, clock, metrics, draining: isDraining };
  const followers = await openFollowers({ ...following, applyImports: imports.apply });
  const lane = options.lane && config.shard?.index;
  const actions = createActions({ config, db, journal, accounts, deliveries, archives, clock, lane });
  const requests = createRequests(db, clock);
  const live: LiveView = {
    startedMs: clock.now(),
    alarms: () => alarms.list(),
    accounts: () => accounts.map(({ name, poller }) => ({ name, ...poller.status() })),
    deliveries: () => [...deliveries, ...archives].map((one) => one.status()),
    rates: rates.view,
  };
  const upkeep = (stop: AbortSignal) => [
    loops.every(SECOND_MS, stop, async () => {
      await keeper.turn();
      memory.dropIdle(clock.now());
    }),
    // For commands; each time is a synced commit, so not every second.
    loops.every(5 * SECOND_MS, stop, () => storeLive(db, live, clock.now())),
  ];
  const view = createView(db, live, { ...viewOptions(config, clock), lane });
  const { routes } = imports;
  const extras = options.lane && { routes, answer: options.lane.answer, underWay: createUnderWay() };
  const search = openSearchProcess(config, options.searchProcess, { clock, alarms, log, archives, journal });
  const serving = { config, telemetry, measured, view, actions, routes, search: search?.service, clock, log };

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
    requests,
    async run(signal, started) {
      const server = await serve(serving, signal);
      started?.(server?.url);
      await together(signal, (stop) => [
        ...accounts.map((account) => account.poller.run(stop)),
        ...deliveries.map((delivery) => delivery.run(stop)),
        ...archives.map((archive) => archive.run(stop, { verifies: true })),
        ...followers.map(({ step }) => loops.follow(step, stop, () => false)),
        ...upkeep(stop),
        loops.every(5 * SECOND_MS, stop, createSinkWatch(view, alarms, config.alarms.sinkBehind)),
        loops.every(SECOND_MS, stop, () => carryOutRequests(requests, actions, log, stop, extras)),
        loops.every(SECOND_MS, stop, () => imports.step(stop)),
        search?.keepIndex(stop) ?? Promise.resolve(),
        // `stop` has ended what goes on behind the loops; the state must not close before.
      ]).finally(() =>
        Promise.allSettled([search?.close(), server?.close(), imports.settled(), extras?.underWay.settled()]),
      );
    },
    async once(signal) {
      const startDraining = () => {
        draining = true;
      };
      const readers = { deliveries, followers, archives };
      await pullAndDrain({ accounts, ...readers, loops, wake, startDraining, isDraining, upkeep }, signal);
    },
    async close() {
      await Promise.allSettled([...deliveries, ...archives].map((one) => one.close()));
      await Promise.allSettled(accounts.map((account) => account.close()));
      await Promise.all([preparer.close(), options.encoder?.close()]);
      await journal.close();
      await checkpoints?.close();
      db.close();
      lock.release();
    },
  };
}

/** Loaded where somebody looks at them. */
async function tracesOf(tracer: NonNullable<Telemetry["tracer"]>): Promise<Traces> {
  const { createTraces } = await import("./core/traces.ts");
  return createTraces(tracer);
}
