import type { Tenant } from "../generator/directory.ts";
import type { Answer } from "../http/exchange.ts";
import type { Imports } from "../world/import-jobs.ts";
import type { Provisioning } from "../world/provisioning.ts";
import type { Schedules } from "../world/schedules.ts";
import type { Users } from "../world/users.ts";
import type { World } from "../world/world.ts";

export interface Parts {
  readonly world: World;
  readonly users: Users;
  readonly imports: Imports;
  readonly schedules: Schedules;
  readonly provisioning: Provisioning;
}

/** A call that has passed authentication: whose it is, about which organization, with what. */
export interface Call {
  readonly organization: Tenant;
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  /** The JSON body, parsed on demand. */
  readonly body: () => unknown;
  /** Who an event names as its initiator. */
  readonly initiator: Readonly<Record<string, unknown>>;
  /** The calling system, when the request was signed by one. */
  readonly system: string | null;
}

export interface Route {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Relative to {base_url}; `:name` matches one segment. */
  readonly path: string;
  readonly scopes?: readonly string[];
  /** May be called by a system about itself. */
  readonly systemContext?: boolean;
  readonly handle: (call: Call) => Answer;
}

export interface Match {
  readonly route: Route;
  readonly params: Readonly<Record<string, string>>;
}

/** The route of a path, or the methods that the path would take. */
export function matchRoute(
  routes: readonly Route[],
  method: string,
  path: string,
): Match | { readonly allowed: string[] } {
  const segments = path.replace(/\/$/, "").split("/");
  const allowed: string[] = [];
  for (const route of routes) {
    const params = matchPath(route.path.split("/"), segments);
    if (params === null) continue;
    if (route.method === method) return { route, params };
    allowed.push(route.method);
  }
  return { allowed };
}

function matchPath(pattern: readonly string[], segments: readonly string[]): Record<string, string> | null {
  if (pattern.length !== segments.length) return null;
  const params: Record<string, string> = {};
  for (const [index, part] of pattern.entries()) {
    const segment = segments[index]!;
    if (!part.startsWith(":")) {
      if (part !== segment) return null;
      continue;
    }
    // Identifiers are plain; a segment that needs decoding names nothing that exists.
    params[part.slice(1)] = segment;
  }
  return params;
}
