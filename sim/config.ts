import { type Config, configSchema } from "../src/config/schema.ts";
import { secretOf } from "../src/core/secret.ts";
import type { ConfigChange } from "./faults.ts";
import { organizationId, PROVIDER_ID, type Settings } from "./plan.ts";

/** The settings as a config, the way a person would write it. */
export function configOf(settings: Settings, state: string): Config {
  const { shard: _, ...config } = configSchema.parse({
    accounts: [
      {
        name: "acme",
        insightsUrl: "http://localhost:1",
        managementUrl: "http://localhost:1/api",
        apiKey: { env: "KEY" },
        organizations: settings.only === null ? "all" : settings.only.map(organizationId),
        ...(settings.portal ? { provider: PROVIDER_ID } : {}),
        services: settings.services,
        since: duration(settings.sinceMs),
        retention: duration(settings.retentionMs),
        bodyMax: settings.bodyMax,
      },
    ],
    state,
    polling: {
      interval: duration(settings.intervalMs),
      overlap: duration(settings.overlapMs),
      window: duration(settings.windowMs),
      sweeps: settings.sweepsMs.map(duration),
      lastSweep: duration(settings.lastSweepMs),
      pageSize: settings.pageSize,
      headerBytes: settings.headerBytes,
      order: settings.order,
      discovery: duration(settings.discoveryMs),
    },
    drift: false,
    sinks: settings.sinks.map(({ name, folder, services, start, path, rotateBytes }) => ({
      name,
      type: "file",
      directory: folder,
      path,
      rotateSize: rotateBytes,
      ...(services === undefined ? {} : { only: { services } }),
      ...(start === undefined ? {} : { start }),
    })),
  });
  config.accounts[0]!.apiKey = secretOf("key");
  return config;
}

function duration(ms: number): string {
  return `${Math.round(ms / 1000)}s`;
}

export function changed(settings: Settings, change: ConfigChange): Settings {
  switch (change.type) {
    case "since":
      return { ...settings, sinceMs: change.sinceMs };
    case "page_size":
      return { ...settings, pageSize: change.pageSize };
    case "organizations":
      return { ...settings, only: change.only };
    case "portal":
      return { ...settings, portal: change.isRead };
    case "add_sink": {
      const { name } = change;
      const added = {
        name,
        folder: `/sinks/${name}`,
        start: "now",
        path: "{date}",
        rotateBytes: 100_000,
      } as const;
      return { ...settings, sinks: [...settings.sinks, added] };
    }
    case "rename_sink": {
      const rename = (sink: Settings["sinks"][number], at: number) =>
        at === change.index ? { ...sink, name: change.name } : sink;
      return { ...settings, sinks: settings.sinks.map(rename) };
    }
    case "services":
      return { ...settings, services: change.services };
    case "sweeps":
      return { ...settings, sweepsMs: change.sweepsMs };
    case "filter": {
      const filter = ({ services: _, ...sink }: Settings["sinks"][number]) =>
        change.services === null ? sink : { ...sink, services: change.services };
      return {
        ...settings,
        sinks: settings.sinks.map((sink, at) => (at === change.index ? filter(sink) : sink)),
      };
    }
    case "windows":
      return { ...settings, windowMs: change.windowMs, order: change.order };
  }
}
