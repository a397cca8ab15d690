import type { AccountConfig } from "../../config/schema.ts";
import { systemClock } from "../../core/clock.ts";
import { ScanError } from "../../core/scanner.ts";
import { timeoutSignal } from "../../core/timeout.ts";
import { REGIONS } from "../../directory/account.ts";
import type { InsightsScope } from "../../directory/insights.ts";
import { openClients, sourceFaultOf } from "../account.ts";

/** The remedy for a failed request: each cause has its own sentence. */
export async function remedyOf(
  config: AccountConfig,
  scope: InsightsScope,
  error: unknown,
  signal: AbortSignal,
): Promise<string> {
  const network = networkFault(error);
  if (network !== undefined) return network;
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
      return "The service cannot be reached at the moment: try again, and check insightsUrl or region, proxies and firewalls";
    case "body_too_large":
    case "no_room":
    case "nonsense":
      return "This does not look like the Insights API: check insightsUrl, and whether a proxy answers instead";
    case "bug":
      return "This is a defect of the program: please report it";
  }
}

/** A wrong region looks like a wrong key, so the other regions are asked. Not where the config has its own address. */
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
      // The key does not work there either.
    } finally {
      await clients.close();
    }
  }
  return undefined;
}

/** The failures below HTTP; undefined when there was an answer. */
export function networkFault(error: unknown): string | undefined {
  const code = codesOf(error).find((one) => FAULTS.some(([pattern]) => pattern.test(one)));
  return code === undefined ? undefined : FAULTS.find(([pattern]) => pattern.test(code))![1];
}

const FAULTS: readonly (readonly [RegExp, string])[] = [
  [
    /^(ENOTFOUND|EAI_AGAIN|EAI_NODATA)$/,
    "This host name is not known to DNS: check insightsUrl and managementUrl for typing errors, and this machine's DNS",
  ],
  [/^ECONNREFUSED$/, "Nothing accepts connections at this address and port: check both"],
  [
    /^(ETIMEDOUT|UND_ERR_CONNECT_TIMEOUT|EHOSTUNREACH|ENETUNREACH)$/,
    "The address cannot be reached from this machine: check firewalls, and whether a proxy has to be used",
  ],
  [
    /CERT|^ERR_TLS|^DEPTH_ZERO|^UNABLE_TO|SELF_SIGNED/,
    "The certificate is not trusted. A proxy that inspects TLS has its own authority: give its certificate as ca",
  ],
  [
    /^(ERR_SSL|EPROTO)/,
    "The answer is not TLS: the address may be a plain HTTP port, or a proxy answers instead",
  ],
];

function codesOf(error: unknown): string[] {
  const codes: string[] = [];
  for (let at = error, depth = 0; at instanceof Error && depth < 6; at = at.cause, depth++) {
    const { code } = at as { code?: unknown };
    if (typeof code === "string") codes.push(code);
    if (at instanceof AggregateError) codes.push(...at.errors.flatMap(codesOf));
  }
  return codes;
}
