import { createAccess } from "./access.ts";
import { createClock } from "./clock.ts";
import { type Control, createControl } from "./control.ts";
import { createControlHttp } from "./control-http.ts";
import { createEvents } from "./events.ts";
import { createDirectory, type Directory } from "./generator/directory.ts";
import { createFaults } from "./http/faults.ts";
import { openServer } from "./http/server.ts";
import { createStatistics } from "./http/statistics.ts";
import { createInsights } from "./insights/insights.ts";
import { createManagement } from "./management/management.ts";
import type { Parts } from "./management/router.ts";
import { createOauth } from "./oauth.ts";
import { type KeyOption, type Settings, type SimulatorOptions, settle } from "./options.ts";
import { createRandom } from "./random.ts";
import { openDatabase } from "./world/database.ts";
import { createImports } from "./world/import-jobs.ts";
import { createKeep, keptEvents, recall } from "./world/memory.ts";
import { createProvisioning } from "./world/provisioning.ts";
import { createSchedules } from "./world/schedules.ts";
import { createUsers } from "./world/users.ts";
import { createWorld, type World } from "./world/world.ts";

export type { Control } from "./control.ts";
export type { Fault } from "./http/faults.ts";
export type { SimulatorOptions } from "./options.ts";
export type { SystemOption, WorldControl } from "./world-control.ts";

/** A running service. Close it to end everything that it started. */
export interface Simulator {
  /** http://127.0.0.1:PORT: Insights below it, the management API below {url}/api, the control below {url}/_control. */
  readonly url: string;
  readonly insightsUrl: string;
  readonly managementUrl: string;
  /** The administrator's key at start. */
  readonly apiKey: string;
  /** Every key with its role; a command runner's is always among them. */
  readonly keys: readonly { readonly key: string; readonly role: string }[];
  readonly organizations: readonly { readonly id: string; readonly name: string }[];
  readonly providerId: string;
  /** A service account, as clients use it instead of a key. */
  readonly oauth: { readonly clientId: string; readonly clientSecret: string; readonly tokenUrl: string };
  readonly control: Control;
  close(): Promise<void>;
}

export async function startSimulator(options: SimulatorOptions = {}): Promise<Simulator> {
  const given = settle(options);
  const faults = createFaults(createRandom(given.seed, 2), given.faults);
  const db = openDatabase(given.file);
  const { settings, historyEndMs, run } = recall(db, given);
  const directory = createDirectory(settings.seed, settings.organizations);
  const clock = createClock(settings);
  const keep = settings.file === null ? null : createKeep(db);
  const events = createEvents({ settings, directory, clock, historyEndMs, run, keep, kept: keptEvents(db) });
  // Making the history takes time; a clock with a given start begins when the service is ready.
  if (options.clock?.start !== undefined) clock.set(settings.startMs + settings.skewMs);
  const oauth = createOauth({ seed: settings.seed, tokenSeconds: settings.tokenSeconds, now: clock.now });
  const access = createAccess(directory, keysOf(settings), refusalsOf(settings, directory), oauth.callerOf);
  const statistics = createStatistics(clock.now);
  const parts = createParts(createWorld({ db, clock, settings, directory, events, run }));
  const insights = createInsights({ settings, clock, store: events.store, access, advance: events.advance });
  const control = createControl({
    clock,
    events,
    faults,
    statistics,
    access,
    directory,
    apiKey: settings.apiKey,
    management: parts,
  });
  const management = createManagement(parts, access);
  async function release(): Promise<void> {
    clock.close();
    await parts.provisioning.close();
    events.store.close();
    db.close();
  }
  const server = await openServer({
    settings,
    clock,
    faults,
    statistics,
    insights,
    management,
    oauth,
    control: createControlHttp(control),
  }).catch(async (error: unknown) => {
    await release();
    throw error;
  });
  return {
    url: server.url,
    insightsUrl: server.url,
    managementUrl: `${server.url}/api`,
    apiKey: settings.apiKey,
    keys: access.keys(),
    organizations: directory.tenants.map(({ id, name }) => ({ id, name })),
    providerId: directory.providerId,
    oauth: {
      clientId: oauth.clientId,
      clientSecret: oauth.clientSecret,
      tokenUrl: `${server.url}/oauth2/token`,
    },
    control,
    async close() {
      await server.close();
      await release();
    },
  };
}

function createParts(world: World): Parts {
  const provisioning = createProvisioning(world);
  const users = createUsers(world, provisioning);
  const imports = createImports(world, users);
  const schedules = createSchedules(world, users);
  imports.resume();
  schedules.resume();
  return { world, users, imports, schedules, provisioning };
}

/** The administrator's key, one of a command runner, and those of the options. */
function keysOf(settings: Settings): readonly KeyOption[] {
  return [
    { key: settings.apiKey, role: "administrator" },
    { key: `${settings.apiKey}-command-runner`, role: "command_runner" },
    ...settings.keys,
  ];
}

function refusalsOf(settings: Settings, directory: Directory): ReadonlyMap<string, number> {
  if (typeof settings.organizations === "number") return new Map();
  const refusals = settings.organizations.map(
    (option, index) => [directory.tenants[index]!.id, option.refuse] as const,
  );
  return new Map(refusals.filter((entry): entry is readonly [string, number] => entry[1] !== undefined));
}
