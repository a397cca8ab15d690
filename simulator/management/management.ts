import type { IncomingMessage } from "node:http";
import type { Access, Caller } from "../access.ts";
import type { Tenant } from "../generator/directory.ts";
import { type Answer, json } from "../http/exchange.ts";
import { Problem } from "../http/problem.ts";
import { applicationRoutes } from "./applications.ts";
import { associationRoutes } from "./associations.ts";
import { importRoutes } from "./import-routes.ts";
import { listWrapper } from "./list-query.ts";
import { organizationRecord, organizationRoutes } from "./organizations.ts";
import { matchRoute, type Parts, type Route } from "./router.ts";
import { isSigned, verifySignature } from "./signature.ts";
import { systemRoutes } from "./systems.ts";

export interface ManagementCall {
  readonly request: IncomingMessage;
  readonly path: string;
  readonly parseBody: () => unknown;
}

export type Management = (call: ManagementCall) => Promise<Answer>;

const basePath = "/api";

/** The management API below {base_url}: keys, organizations and signatures first, then the routes. */
export function createManagement(parts: Parts, access: Access): Management {
  const { world } = parts;
  const routes: readonly Route[] = [
    ...applicationRoutes(parts),
    ...importRoutes(parts),
    ...associationRoutes(parts),
    ...organizationRoutes(parts),
    ...systemRoutes(parts),
  ];

  function answer({ request, path, parseBody }: ManagementCall): Answer {
    const relative = path.slice(basePath.length).replace(/(.)\/$/, "$1");
    const query = new URL(request.url ?? "/", "http://simulator").searchParams;
    if (isSigned(request)) return answerSystem(request, relative, query, parseBody);
    const caller = access.authenticate(request);
    refuseOrgId(request, relative);
    if (relative === "/organizations" && request.method === "GET") return listOrganizations(caller, query);
    const { route, params } = find(request.method ?? "", relative);
    refuseScope(caller, route);
    const organization = access.organization(request, caller);
    if (params.organization !== undefined && params.organization.toLowerCase() !== organization.id) {
      if (access.organizationIds(request).length === 0) throw new Problem(404, "Organization ID not found");
      throw new Problem(400, "x-org-id differs from the organization ID in the path");
    }
    world.fill(organization);
    return route.handle({
      organization,
      params,
      query,
      body: parseBody,
      initiator: initiatorOf(organization),
      system: null,
    });
  }

  /** Signed requests reach the system-context endpoints alone; everything else is a 401. */
  function answerSystem(
    request: IncomingMessage,
    path: string,
    query: URLSearchParams,
    body: () => unknown,
  ): Answer {
    const system = verifySignature(world.db, request, world.clock.now());
    const match = matchRoute(routes, request.method ?? "", path);
    if (!("route" in match) || match.route.systemContext !== true) {
      throw new Problem(401, "Unauthorized: the endpoint does not support system context");
    }
    const organization = world.tenant(system.organization);
    world.fill(organization);
    const initiator = { type: "system", id: system.id };
    return match.route.handle({
      organization,
      params: match.params,
      query,
      body,
      initiator,
      system: system.id,
    });
  }

  function find(method: string, path: string) {
    const match = matchRoute(routes, method, path);
    if ("route" in match) return match;
    if (match.allowed.length === 0) throw new Problem(404, "Not found");
    throw new Problem(405, "Method not allowed", { headers: { Allow: match.allowed.join(", ") } });
  }

  function refuseOrgId(request: IncomingMessage, path: string): void {
    if (!world.settings.routesWithoutOrgId.includes(path) || access.organizationIds(request).length === 0)
      return;
    throw new Problem(403, "x-org-id is included on unsupported route");
  }

  function listOrganizations(caller: Caller, query: URLSearchParams): Answer {
    const managed = world.directory.tenants.filter(({ id }) => caller.organizations?.has(id) ?? true);
    return json(200, listWrapper(managed.map(organizationRecord), query, "_id"));
  }

  return async (call) => {
    try {
      return answer(call);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      const { status, message, headers, extra } = error;
      return json(status, { code: status, message, status: statusName(status), ...extra }, headers);
    }
  };
}

function refuseScope(caller: Caller, route: Route): void {
  if (caller.role !== "administrator" && route.method !== "GET")
    throw new Problem(403, "The role may only read");
  const { scopes } = caller;
  if (scopes === null || route.scopes === undefined || route.scopes.some((scope) => scopes.has(scope)))
    return;
  throw new Problem(403, `One of these scopes is needed: ${route.scopes.join(", ")}`);
}

function initiatorOf(tenant: Tenant): Readonly<Record<string, unknown>> {
  const { id, email } = tenant.administrators[0]!;
  return { type: "admin", id, email, administrator: true, source: "api" };
}

const statusNames: Readonly<Record<number, string>> = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
};

function statusName(status: number): string {
  return statusNames[status] ?? "UNKNOWN";
}
