import type { IncomingMessage } from "node:http";
import type { Directory, Tenant } from "./generator/directory.ts";
import { Problem } from "./http/problem.ts";
import type { KeyOption, Role } from "./options.ts";

/** Who calls, and which organizations the call is about. */
export interface Access {
  /** The caller's key, or a 401. */
  authenticate(request: IncomingMessage): Caller;
  /** The scope of an Insights query: organizations' numbers, or the provider's portal alone. */
  insightsScope(request: IncomingMessage, caller: Caller): readonly number[];
  /** The organization of a management call. */
  organization(request: IncomingMessage, caller: Caller): Tenant;
  /** Ids that the request's x-org-id headers name, unchanged. */
  organizationIds(request: IncomingMessage): readonly string[];
  keys(): readonly { key: string; role: Role }[];
  /** Replaces a key: every call with the previous one fails. */
  resetKey(previous: string, next: string): void;
  /** Answers Insights queries that include this organization with this status; null ends that. */
  refuse(organizationId: string, status: number | null): void;
  /** Answers 402 to queries of this organization that reach further back than so many days; null ends that. */
  limitHistory(organizationId: string, days: number | null): void;
  /** Throws the 402 where a plan limits one of these organizations to less history. */
  checkHistory(organizations: readonly number[], fromMs: number, nowMs: number): void;
}

export interface Caller {
  readonly key: string;
  readonly role: Role;
  /** Null: every organization. */
  readonly organizations: ReadonlySet<string> | null;
  readonly multiTenant: boolean;
  readonly scopes: ReadonlySet<string> | null;
}

const idPattern = /^[0-9a-fA-F]{24}$/;

export function createAccess(
  directory: Directory,
  keys: readonly KeyOption[],
  refusals: ReadonlyMap<string, number>,
  bearer: (token: string) => Caller | undefined,
): Access {
  const callers = new Map(keys.map((option) => [option.key, createCaller(option, directory)]));
  const tenants = new Map(directory.tenants.map((tenant) => [tenant.id, tenant]));
  const refused = new Map(refusals);
  const historyDays = new Map<number, number>();

  function find(id: string, caller: Caller): Tenant {
    if (!idPattern.test(id)) throw new Problem(400, `x-org-id is malformed: ${printable(id)}`);
    const tenant = tenants.get(id.toLowerCase());
    if (tenant === undefined) throw new Problem(404, "Organization ID not found");
    if (caller.organizations !== null && !caller.organizations.has(tenant.id)) {
      throw new Problem(403, "The key has no access to this organization");
    }
    return tenant;
  }

  function own(caller: Caller): Tenant {
    if (caller.multiTenant)
      throw new Problem(401, "Unauthorized: a multi-tenant administrator must send x-org-id");
    return tenants.get([...(caller.organizations ?? tenants.keys())][0]!)!;
  }

  function isRefused(tenant: Tenant): void {
    const status = refused.get(tenant.id);
    if (status !== undefined) throw new Problem(status, refusalMessage(status));
  }

  return {
    authenticate(request) {
      const key = request.headers["x-api-key"];
      const token = /^Bearer (\S+)$/i.exec(request.headers.authorization ?? "")?.[1];
      const caller =
        typeof key === "string" ? callers.get(key) : token === undefined ? undefined : bearer(token);
      if (caller === undefined) throw new Problem(401, "Unauthorized");
      return caller;
    },
    insightsScope(request, caller) {
      const ids = organizationIds(request);
      const providers = headerValues(request, "x-provider-id");
      if (providers.length > 0) return [portalNumber(directory, providers, ids, caller)];
      const found = ids.length === 0 ? [own(caller)] : ids.map((id) => find(id, caller));
      for (const tenant of found) isRefused(tenant);
      return [...new Set(found.map((tenant) => tenant.number))].sort((a, b) => a - b);
    },
    organization(request, caller) {
      const ids = organizationIds(request);
      if (ids.length > 1) throw new Problem(400, "x-org-id is malformed: the management API takes one");
      return ids.length === 0 ? own(caller) : find(ids[0]!, caller);
    },
    organizationIds,
    keys: () => [...callers.values()].map(({ key, role }) => ({ key, role })),
    resetKey(previous, next) {
      const caller = callers.get(previous);
      if (caller === undefined) throw new Problem(404, "There is no such key");
      callers.delete(previous);
      callers.set(next, { ...caller, key: next });
    },
    refuse(organizationId, status) {
      if (status === null) refused.delete(organizationId.toLowerCase());
      else refused.set(organizationId.toLowerCase(), status);
    },
    limitHistory(organizationId, days) {
      const tenant = tenants.get(organizationId.toLowerCase());
      if (tenant === undefined) throw new Problem(404, "Organization ID not found");
      if (days === null) historyDays.delete(tenant.number);
      else historyDays.set(tenant.number, days);
    },
    checkHistory(organizations, fromMs, nowMs) {
      if (historyDays.size === 0) return;
      for (const number of organizations) {
        const days = historyDays.get(number);
        if (days !== undefined && fromMs < nowMs - days * 86_400_000)
          throw new Problem(402, `Your plan keeps ${days} days of Directory Insights`);
      }
    },
  };
}

function createCaller(option: KeyOption, directory: Directory): Caller {
  const some =
    option.organizations === undefined || option.organizations === "all" ? null : option.organizations;
  const count = some?.length ?? directory.tenants.length;
  return {
    key: option.key,
    role: option.role ?? "administrator",
    organizations: some === null ? null : new Set(some.map((id) => id.toLowerCase())),
    multiTenant: option.multiTenant ?? count > 1,
    scopes: option.scopes === undefined ? null : new Set(option.scopes),
  };
}

function portalNumber(
  directory: Directory,
  providers: readonly string[],
  organizations: readonly string[],
  caller: Caller,
): number {
  if (organizations.length > 0)
    throw new Problem(400, "x-provider-id is sent instead of x-org-id, not beside it");
  if (!idPattern.test(providers[0]!)) throw new Problem(400, "x-provider-id is malformed");
  if (providers.some((id) => id.toLowerCase() !== directory.providerId))
    throw new Problem(404, "Provider ID not found");
  if (!caller.multiTenant) throw new Problem(403, "The key has no access to this provider");
  return directory.provider.number;
}

function organizationIds(request: IncomingMessage): readonly string[] {
  return headerValues(request, "x-org-id");
}

/** Repeated headers, and comma-separated ones, which HTTP holds to be the same. */
export function headerValues(request: IncomingMessage, name: string): readonly string[] {
  const values: string[] = [];
  const { rawHeaders } = request;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const header = rawHeaders[i]!;
    if (header.length !== name.length || header.toLowerCase() !== name) continue;
    for (const value of rawHeaders[i + 1]!.split(",")) values.push(value.trim());
  }
  return values;
}

function refusalMessage(status: number): string {
  if (status === 402) return "Directory Insights is not enabled for this organization";
  if (status >= 500) return "Internal server error";
  return status === 404 ? "Organization ID not found" : "Forbidden";
}

function printable(id: string): string {
  return JSON.stringify(id.slice(0, 40));
}
