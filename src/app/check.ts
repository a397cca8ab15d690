import { existsSync } from "node:fs";
import type { AccountConfig, Config, SinkConfig } from "../config/schema.ts";
import { systemClock } from "../core/clock.ts";
import { DecisionNeededError, explain, PausedError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import { startOf } from "../core/position.ts";
import { ScanError, scanPage } from "../core/scanner.ts";
import type { SinkContext } from "../core/sink.ts";
import { formatDuration } from "../core/time.ts";
import { timeoutSignal } from "../core/timeout.ts";
import type { ReaderState } from "../delivery/position.ts";
import { REGIONS } from "../directory/account.ts";
import type { InsightsClient, InsightsScope } from "../directory/insights.ts";
import { openStateForReading } from "../journal/database.ts";
import { isLocked, takeLock } from "../journal/lock.ts";
import { heldOf } from "../journal/reader-row.ts";
import { liveFrom, readStoredLive } from "../journal/view/live.ts";
import { openClients, sourceFaultOf } from "./account.ts";
import { definitionOf, formatOf, ownConfig, sinkConfigs } from "./sinks.ts";

export interface Finding {
  readonly subject: string;
  readonly ok: boolean;
  readonly warning?: boolean;
  readonly message: string;
}

const SKEW_MS_MAX = 60_000;

/** Says in words a person can act on what stands between this config and the service's events. */
export async function* checkAccount(
  config: AccountConfig,
  online: boolean,
  signal: AbortSignal,
): AsyncGenerator<Finding> {
  const subject = `account ${config.name}`;
  if (!online) return;
  const clients = openClients(config, systemClock, 4);
  try {
    const organizations = yield* checkManagement(config, clients.management, subject, signal);
    if (config.provider !== undefined)
      yield await checkScope(
        config,
        clients.insights,
        { provider: config.provider },
        `${subject}, provider ${config.provider}`,
        signal,
      );
    const scopes: InsightsScope[] =
      organizations === undefined ? [{}] : organizations.slice(0, 20).map((id) => ({ organizations: [id] }));
    for (const scope of scopes)
      yield await checkScope(
        config,
        clients.insights,
        scope,
        `${subject}${scope.organizations ? `, organization ${scope.organizations[0]}` : ""}`,
        signal,
      );
    if (organizations !== undefined && organizations.length > 20)
      yield {
        subject,
        ok: true,
        message: `${organizations.length - 20} more organizations were not asked one by one`,
      };
  } finally {
    await clients.close();
  }
}

async function* checkManagement(
  config: AccountConfig,
  management: ReturnType<typeof openClients>["management"],
  subject: string,
  signal: AbortSignal,
) {
  if (config.organizations === undefined) return undefined;
  if (config.organizations !== "all") return config.organizations;
  try {
    const ids: string[] = [];
    for await (const organization of management.organizations(signal)) ids.push(organization._id);
    yield {
      subject,
      ok: ids.length > 0,
      message:
        ids.length > 0
          ? `the service lists ${ids.length} organizations`
          : "the service lists no organization for this key: name them in `organizations`, or leave that out for a single tenant",
    };
    return ids;
  } catch (error) {
    yield {
      subject,
      ok: false,
      message: `the list of organizations cannot be had: ${explain(error)}. Check the key and managementUrl; or name the organizations in the config`,
    };
    return [];
  }
}

async function checkScope(
  config: AccountConfig,
  insights: InsightsClient,
  scope: InsightsScope,
  subject: string,
  signal: AbortSignal,
): Promise<Finding> {
  const nowMs = Date.now();
  const query = { service: config.services, startTime: new Date(nowMs - 86_400_000).toISOString(), limit: 1 };
  try {
    const page = await insights.events(query, scope, { signal });
    // A proxy's page answers with 200 too: only the body tells.
    scanPage((await page.body()).bytes);
    const skewMs = page.head.dateMs === undefined ? 0 : nowMs - page.head.dateMs;
    if (Math.abs(skewMs) > SKEW_MS_MAX) {
      return {
        subject,
        ok: true,
        warning: true,
        message: `Insights answers; this machine's clock is ${formatDuration(Math.abs(skewMs))} ${skewMs > 0 ? "ahead" : "behind"} (the service's time is used, nothing is lost)`,
      };
    }
    return { subject, ok: true, message: "Insights answers" };
  } catch (error) {
    if (signal.aborted) throw error;
    return {
      subject,
      ok: false,
      message: `${explain(error)}. ${await remedyOf(config, scope, error, signal)}`,
    };
  }
}

async function remedyOf(
  config: AccountConfig,
  scope: InsightsScope,
  error: unknown,
  signal: AbortSignal,
): Promise<string> {
  const kind = error instanceof ScanError ? "nonsense" : sourceFaultOf(error).kind;
  switch (kind) {
    case "unauthorized": {
      const elsewhere = await regionThatWorks(config, scope, signal);
      if (elsewhere !== undefined) return `The key is valid in region ${elsewhere}: set region: ${elsewhere}`;
      return scope.organizations === undefined && scope.provider === undefined
        ? "The key is wrong, was reset, or belongs to a multi-tenant administrator: then add `organizations`"
        : "The key is wrong or was reset: make a new one in the administrator's console and set it again";
    }
    case "forbidden": {
      const elsewhere = await regionThatWorks(config, scope, signal);
      if (elsewhere !== undefined) return `The key is valid in region ${elsewhere}: set region: ${elsewhere}`;
      return scope.organizations === undefined && scope.provider === undefined
        ? "The organization header is missing for this key: add `organizations` (all, or a list of ids); or the administrator's role may not read events"
        : "The administrator's role may not read events (a command runner may not): use a key of an administrator, or one with access to this organization";
    }
    case "not_entitled":
      return "Insights is not enabled for this organization, or its plan does not keep events so far back: enable it, or lower `since` and `retention`";
    case "unknown_organization":
      return "No organization has this id: compare it with the console, or use organizations: all";
    case "bad_request":
      return "The organization's id is malformed, or a service's name is not known: compare both with the service's documentation";
    case "headers_too_large":
      return "The service or a proxy refuses so many organizations in one request: lower polling.headerBytes";
    case "throttled":
      return "The key is being throttled: another client uses it too, or set polling.requestsPerSecond";
    case "unavailable":
    case "cut_off":
      return "The service cannot be reached: check insightsUrl or region, DNS, proxies and firewalls";
    case "body_too_large":
    case "nonsense":
      return "This does not look like the Insights API: check insightsUrl, and whether a proxy answers instead";
    case "bug":
      return "This is a defect of the program: please report it";
  }
}

/** A wrong region looks like a wrong key: only asking the others tells them apart. Never for addresses of one's own. */
async function regionThatWorks(
  config: AccountConfig,
  scope: InsightsScope,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (config.region === undefined || config.insightsUrl !== undefined) return undefined;
  for (const region of Object.keys(REGIONS) as (keyof typeof REGIONS)[]) {
    if (region === config.region) continue;
    const clients = openClients({ ...config, region }, systemClock, 1);
    try {
      const query = {
        service: config.services,
        startTime: new Date(Date.now() - 3_600_000).toISOString(),
        limit: 1,
      };
      (
        await clients.insights.events(query, scope, {
          signal: AbortSignal.any([signal, timeoutSignal(10_000)]),
        })
      ).discard();
      return region;
    } catch {
      // Not there either.
    } finally {
      await clients.close();
    }
  }
  return undefined;
}

export interface SinkCheck {
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly stdout: NodeJS.WritableStream;
}

/**
 * Beside a running process its own word counts: opening a sink a second time could push the first one out.
 * Else every sink is opened as the next run would open it, under the lock, and closed again.
 */
export async function* checkSinks(config: Config, io: SinkCheck): AsyncGenerator<Finding> {
  const running = existsSync(config.state) && isLocked(config.state);
  for (const sink of sinkConfigs(config)) {
    yield* advice(sink);
    if (running) yield deliveryFinding(config, sink);
    else yield await openFinding(config, sink, io);
  }
}

function deliveryFinding(config: Config, sink: SinkConfig): Finding {
  const subject = `sink ${sink.name}`;
  const db = openStateForReading(config.state);
  try {
    const live = liveFrom(readStoredLive(db), systemClock.now());
    const delivery = live?.deliveries().find((candidate) => candidate.name === sink.name);
    if (delivery === undefined)
      return { subject, ok: true, warning: true, message: "the running process has not told of it yet" };
    const ok = delivery.state === "running" || delivery.state === "opening";
    const { state, reason, remedy } = delivery;
    return {
      subject,
      ok,
      message: `the running process says: ${state}${reason === null ? "" : `. ${reason}`}${remedy === null ? "" : ` ${remedy}`}`,
    };
  } finally {
    db.close();
  }
}

async function openFinding(config: Config, sink: SinkConfig, io: SinkCheck): Promise<Finding> {
  const definition = definitionOf(sink);
  const subject = `sink ${sink.name}`;
  const lock = takeLock(config.state);
  try {
    const { position, state } = heldBySink(config, sink);
    const opened = await definition.open({
      name: sink.name,
      config: ownConfig(sink),
      format: formatOf(sink),
      journal: position.journal,
      position,
      state,
      clock: systemClock,
      log: io.log,
      signal: AbortSignal.any([io.signal, timeoutSignal(60_000)]),
      stdout: io.stdout,
    });
    await opened.close();
    return {
      subject,
      ok: true,
      message: `${definition.type} can be opened; ${definition.promiseOf?.(ownConfig(sink)) ?? definition.promise}`,
    };
  } catch (error) {
    if (io.signal.aborted) throw error;
    const remedy =
      error instanceof PausedError
        ? ` ${error.remedy}`
        : error instanceof DecisionNeededError
          ? ` Choose: ${error.choices.join("; or ")}`
          : "";
    return { subject, ok: false, message: `${explain(error)}${remedy}` };
  } finally {
    lock.release();
  }
}

/** What delivery would give it at opening. */
function heldBySink(config: Config, sink: SinkConfig): Pick<SinkContext<unknown>, "position" | "state"> {
  if (!existsSync(config.state)) return { position: startOf("none"), state: undefined };
  const db = openStateForReading(config.state);
  try {
    const { position, state } = heldOf(db, sink.name);
    return { position, state: (state as ReaderState | undefined)?.sink };
  } finally {
    db.close();
  }
}

/** Words of warning that the config alone can tell. */
export function* advice(sink: SinkConfig): Generator<Finding> {
  for (const message of definitionOf(sink).advise?.(ownConfig(sink)) ?? [])
    yield { subject: `sink ${sink.name}`, ok: true, warning: true, message };
}
