import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { type Simulator, type SimulatorOptions, startSimulator } from "../../simulator/index.ts";
import { type Account, openAccount } from "../../src/app/account.ts";
import { fitWindowTimes } from "../../src/app/window-times.ts";
import { parseConfig } from "../../src/config/load.ts";
import type { Config } from "../../src/config/schema.ts";
import { type Alarm, createAlarms } from "../../src/core/alarms.ts";
import { createBufferPool } from "../../src/core/buffer-pool.ts";
import type { Clock } from "../../src/core/clock.ts";
import { silentLog } from "../../src/core/log.ts";
import { type Metrics, silentMetrics } from "../../src/core/metrics.ts";
import type { PageGate } from "../../src/core/page-gate.ts";
import { startOf } from "../../src/core/position.ts";
import type { Secret } from "../../src/core/secret.ts";
import type { Window } from "../../src/core/window.ts";
import { openState, type State } from "../../src/journal/database.ts";
import { keepUnattributed } from "../../src/journal/dead-letters.ts";
import { createJournal, type SqliteJournal } from "../../src/journal/journal.ts";
import { createPageGate } from "../../src/journal/page-gate.ts";
import { createRoster } from "../../src/journal/roster.ts";
import { inlinePreparer } from "../../src/polling/prepare/preparer.ts";

const START = "2025-03-01T12:00:00Z";
export const START_MS = Date.parse(START);
export const SECOND = 1000;
export const MINUTE = 60_000;
export const HOUR = 3_600_000;
export const DAY = 86_400_000;

export interface WorldOptions {
  readonly simulator?: SimulatorOptions;
  /** Merged over the account's defaults; `accounts` replaces them. */
  readonly account?: Record<string, unknown>;
  readonly accounts?: readonly Record<string, unknown>[];
  readonly polling?: Record<string, unknown>;
  /** How far the local clock is ahead of the service's. */
  readonly skewMs?: number;
  readonly gate?: PageGate;
  readonly metrics?: Metrics;
}

/**
 * A real simulator whose clock stands still, a real journal, and the pollers over both. The local clock
 * follows the simulator's: time passes when a test moves it, or when somebody sleeps.
 */
export interface World {
  readonly simulator: Simulator;
  readonly organizations: readonly string[];
  readonly clock: Clock & { skewMs: number };
  readonly signal: AbortSignal;
  readonly folder: string;
  readonly alarms: () => readonly Alarm[];
  /** The alarms of a process end with it. */
  forgetAlarms(): void;
  journal: SqliteJournal;
  db: State;
  account: Account;
  accounts: readonly Account[];
  /** Steps until there is nothing left to do; gives how many there were. */
  drain(): Promise<number>;
  /** Lets time pass in strides, with steps after each. */
  pass(ms: number, strideMs?: number): Promise<void>;
  /** The process ends and starts again, with another config if given. */
  restart(change?: Pick<WorldOptions, "account" | "accounts" | "polling">): Promise<void>;
  windows(): Promise<readonly Window[]>;
  /** The bytes of every event of the journal, sorted. */
  held(): Promise<string[]>;
  /** The bytes of every event of the organizations, and of the portal where it is read, that the service ever showed, sorted. */
  served(): string[];
  /** The multisets of both, one against the other. */
  compare(): Promise<{ held: number; lost: number; twice: number }>;
  close(): Promise<void>;
}

export const COMPLETE = { lost: 0, twice: 0 };

export async function openWorld(options: WorldOptions = {}): Promise<World> {
  const simulator = await startSimulator({
    seed: 7,
    organizations: 3,
    events: 300,
    days: 5,
    eventBytes: 600,
    lateness: "none",
    futureShare: 0,
    ...options.simulator,
    clock: { start: START, speed: 0, ...options.simulator?.clock },
  });
  const folder = mkdtempSync(join(tmpdir(), "tidemark-polling-"));
  const clock = clockOf(simulator, options.skewMs ?? 0);
  const stop = new AbortController();
  const alarms = createAlarms(clock, silentLog);
  let config = configOf(simulator, folder, options);
  let given = options;

  const world: World = {
    simulator,
    organizations: simulator.organizations.map(({ id }) => id),
    clock,
    signal: stop.signal,
    folder,
    alarms: alarms.list,
    forgetAlarms() {
      for (const { kind, subject } of alarms.list()) alarms.clear(kind, subject);
    },
    ...open(),
    async drain() {
      for (let steps = 0; ; steps++) {
        if (steps > 20_000) throw new Error("The pollers never come to rest.");
        const results = [];
        for (const { poller } of world.accounts) results.push(await poller.step(stop.signal));
        if (results.every((result) => result === "idle")) return steps;
      }
    },
    async pass(ms, strideMs = ms) {
      for (let passed = 0; passed < ms; passed += strideMs) {
        simulator.control.clock.advance(Math.min(strideMs, ms - passed));
        await world.drain();
      }
    },
    async restart(change = {}) {
      await shut();
      given = { ...given, ...change };
      config = configOf(simulator, folder, given);
      Object.assign(world, open());
      await fitWindowTimes(world.db, config);
    },
    windows: () => world.journal.windows(),
    async held() {
      const texts: string[] = [];
      const reader = await world.journal.reader("test");
      let after = startOf(world.journal.id);
      for (;;) {
        const page = await reader.read(after);
        if (page === null) return texts.sort();
        for (let at = 0; at < page.count; at++)
          texts.push(Buffer.from(page.event(page.first + at).bytes).toString("latin1"));
        after = page.after(page.first + page.count - 1);
      }
    },
    served() {
      const whose = [
        ...world.organizations,
        ...(config.accounts.some(({ provider }) => provider) ? ["provider"] : []),
      ];
      return whose
        .flatMap((organization) => [...simulator.control.allEvents({ organization })])
        .map((bytes) => Buffer.from(bytes).toString("latin1"))
        .sort();
    },
    async compare() {
      const counts = new Map<string, number>();
      const served = world.served();
      for (const text of await world.held()) counts.set(text, (counts.get(text) ?? 0) + 1);
      const held = [...counts.values()].reduce((sum, count) => sum + count, 0);
      for (const text of served) counts.set(text, (counts.get(text) ?? 0) - 1);
      const off = [...counts.values()];
      return {
        held,
        lost: off.filter((count) => count < 0).reduce((sum, count) => sum - count, 0),
        twice: off.filter((count) => count > 0).reduce((sum, count) => sum + count, 0),
      };
    },
    async close() {
      stop.abort(new Error("The test is over."));
      await shut();
      await simulator.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
  await fitWindowTimes(world.db, config);
  return world;

  function open() {
    const db = openState(config.state);
    const memory = createBufferPool({ poison: true });
    const journal = createJournal(db, clock, memory);
    const accounts = config.accounts.map((account) =>
      openAccount(account, {
        journal,
        roster: createRoster(db),
        clock,
        alarms,
        metrics: given.metrics ?? silentMetrics,
        log: silentLog,
        gate: given.gate ?? openGate(config.polling.pagesInFlight, clock),
        preparer: inlinePreparer,
        memory,
        traces: undefined,
        polling: { ...config.polling, accounts: config.accounts.map(({ name }) => name) },
        keepUnattributed: (stream, bytes, reason) =>
          keepUnattributed(db, account.name, stream.id, bytes, reason, clock.now()),
      }),
    );
    return { db, journal, accounts, account: accounts[0]! };
  }

  async function shut(): Promise<void> {
    for (const account of world.accounts) await account.close();
    await world.journal.close();
    world.db.close();
  }
}

/** A gate with room on disk and in memory, and no reader behind. */
export function openGate(pagesInFlight: number, clock: Clock): PageGate {
  return createPageGate({
    pagesInFlight,
    disk: { hasRoom: () => true, room: async () => {} },
    memory: { heldBytes: () => 0, onFree: () => {}, dropOldest: () => false },
    readers: { isBehind: () => false, hasMore: () => false, giveUp: () => {}, onMove: () => {} },
    clock,
  });
}

/** Sleeping moves the simulator's clock; several sleepers at once move it once. */
function clockOf(simulator: Simulator, skewMs: number): World["clock"] {
  const { clock } = simulator.control;
  return {
    skewMs,
    now() {
      return clock.read().nowMs + this.skewMs;
    },
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        if (signal.aborted) return reject(signal.reason);
        const untilMs = clock.read().nowMs + ms;
        setImmediate(() => {
          if (signal.aborted) return reject(signal.reason);
          const leftMs = untilMs - clock.read().nowMs;
          if (leftMs > 0) clock.advance(Math.ceil(leftMs));
          resolve();
        });
      }),
  };
}

function configOf(simulator: Simulator, folder: string, options: WorldOptions): Config {
  const account = {
    name: "acme",
    insightsUrl: simulator.insightsUrl,
    managementUrl: simulator.managementUrl,
    apiKey: { env: "KEY" },
    organizations: "all",
    since: "5d",
  };
  const accounts = options.accounts ?? [{}];
  const value = {
    accounts: accounts.map((own) => ({ ...account, ...options.account, ...own })),
    state: join(folder, "state.db"),
    polling: { interval: "30s", ...options.polling },
    sinks: [{ name: "out", type: "console" }],
  };
  const config = parseConfig(stringify(value), "test.yaml");
  for (const { apiKey } of config.accounts) (apiKey as unknown as Secret).resolve(simulator.apiKey);
  return config;
}
