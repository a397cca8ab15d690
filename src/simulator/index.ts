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
import { type KeyOption, type Settings, type SimulatorOptions, settle } from "./options.ts";
import { createRandom } from "./random.ts";

export type { Control } from "./control.ts";
export type { Fault } from "./http/faults.ts";
export type { SimulatorOptions } from "./options.ts";

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
  readonly control: Control;
  close(): Promise<void>;
}

export async function startSimulator(options: SimulatorOptions = {}): Promise<Simulator> {
  const settings = settle(options);
  const directory = createDirectory(settings.seed, settings.organizations);
  const clock = createClock(settings);
  const events = createEvents(
    settings,
    directory,
    clock,
    { endMs: settings.startMs, liveFromMs: settings.startMs },
    null,
  );
  const access = createAccess(directory, keysOf(settings), refusalsOf(settings, directory));
  const faults = createFaults(createRandom(settings.seed, 2), settings.faults);
  const statistics = createStatistics(clock.now);
  const insights = createInsights({ settings, clock, store: events.store, access, advance: events.advance });
  const management = createManagement(access, directory);
  const control = createControl({
    clock,
    events,
    faults,
    statistics,
    access,
    directory,
    apiKey: settings.apiKey,
  });
  const server = await openServer({
    settings,
    clock,
    faults,
    statistics,
    insights,
    management,
    control: createControlHttp(control),
  });
  return {
    url: server.url,
    insightsUrl: server.url,
    managementUrl: `${server.url}/api`,
    apiKey: settings.apiKey,
    keys: access.keys(),
    organizations: directory.tenants.map(({ id, name }) => ({ id, name })),
    providerId: directory.providerId,
    control,
    async close() {
      await server.close();
      clock.close();
      events.store.close();
    },
  };
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
