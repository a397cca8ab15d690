import { readFileSync } from "node:fs";
import { openClients } from "../app/account.ts";
import type { ClusterClient } from "../app/cluster/client.ts";
import { archiveTrouble } from "../app/older-state.ts";
import { importRefusal } from "../app/shard.ts";
import { viewOptions } from "../app/view.ts";
import { loadConfig, loadConfigForReading } from "../config/load.ts";
import type { Config } from "../config/schema.ts";
import { systemClock } from "../core/clock.ts";
import { UsageError } from "../core/errors.ts";
import type { View } from "../core/view.ts";
import { connectionOf } from "../directory/account.ts";
import { type ManagementClient, openSystem } from "../directory/management.ts";
import { openState, openStateForReading, type State } from "../journal/database.ts";
import { isLocked } from "../journal/lock.ts";
import { createView } from "../journal/view/view.ts";
import type { Io } from "./io.ts";
import { createLog } from "./log.ts";
import type { ManagementContext } from "./management.ts";

const CONNECTIONS_MAX = 4;

/** The context of the management commands, made from a config file. */
export async function openManagementContext(configFile: string, io: Io): Promise<ManagementContext> {
  const { config } = loadConfig(configFile, io.env);
  const clients = new Map<string, { management: ManagementClient; close(): Promise<void> }>();
  const closers: (() => Promise<void>)[] = [];
  const databases = new Map<string, State>();
  let client: Promise<ClusterClient> | undefined;
  const connectCluster = async (cluster: NonNullable<Config["cluster"]>) => {
    const { openClusterClient } = await import("../app/cluster/client.ts");
    return openClusterClient({ ...config, cluster }, createLog(io, "warn"), io.signal);
  };
  const accountOf = (name: string) => {
    const account = config.accounts.find((candidate) => candidate.name === name);
    if (account !== undefined) return account;
    throw new UsageError(
      `There is no account "${name}": there are ${config.accounts.map((other) => other.name).join(", ")}.`,
    );
  };
  return {
    accounts: config.accounts.map((account) => account.name),
    definitions: config.imports,
    refusal: importRefusal(config),
    system: config.system,
    management(name) {
      const known = clients.get(name) ?? openClients(accountOf(name), systemClock, CONNECTIONS_MAX);
      clients.set(name, known);
      return known.management;
    },
    openSystem(name, identity) {
      const account = accountOf(name);
      const ca = account.ca === undefined ? undefined : readFileSync(account.ca, "utf8");
      const client = openSystem(connectionOf(account), identity, { clock: systemClock, ca });
      closers.push(() => client.close());
      return client;
    },
    cluster:
      config.cluster &&
      (() => {
        client ??= connectCluster(config.cluster!);
        return client;
      }),
    database(mode) {
      const known =
        databases.get(mode) ??
        (mode === "read" ? openStateForReading(config.state) : openState(config.state));
      databases.set(mode, known);
      return known;
    },
    clock: systemClock,
    log: createLog(io, "warn"),
    async close() {
      await client?.then((opened) => opened.close()).catch(() => {});
      await Promise.allSettled([...clients.values()].map((client) => client.close()));
      await Promise.allSettled(closers.map((close) => close()));
      for (const db of databases.values()) db.close();
    },
  };
}

/** The view of a state file, beside a running process or without one; in a cluster that of all machines. */
export async function openView(configFile: string, io: Io): Promise<{ view: View; close(): Promise<void> }> {
  const { config } = loadConfigForReading(configFile, io.env);
  const { cluster } = config;
  if (cluster !== undefined) {
    const { openClusterClient } = await import("../app/cluster/client.ts");
    return openClusterClient({ ...config, cluster }, createLog(io, config.log.level), io.signal);
  }
  const db = openStateForReading(config.state);
  const options = {
    ...viewOptions(config, systemClock),
    isRunning: createLook(config.state),
    troubleOf: archiveTrouble(config, db),
  };
  return {
    view: createView(db, null, options),
    async close() {
      db.close();
    },
  };
}

const LOOK_MS = 1000;

/** Looks at most once a second: a view asks often, and a look holds the lock for a moment. */
function createLook(state: string): () => boolean | undefined {
  let found: boolean | undefined;
  let lookedMs = Number.NEGATIVE_INFINITY;
  return () => {
    if (systemClock.now() - lookedMs < LOOK_MS) return found;
    found = isRunning(state);
    lookedMs = systemClock.now();
    return found;
  };
}

/** A running process has the state's lock. Undefined: someone who may only read cannot ask. */
function isRunning(state: string): boolean | undefined {
  try {
    return isLocked(state);
  } catch {
    return undefined;
  }
}
