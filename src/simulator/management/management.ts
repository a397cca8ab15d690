import type { IncomingMessage } from "node:http";
import type { Access } from "../access.ts";
import type { Directory } from "../generator/directory.ts";
import { type Answer, json } from "../http/exchange.ts";
import { Problem } from "../http/problem.ts";

export interface ManagementCall {
  readonly request: IncomingMessage;
  readonly path: string;
  readonly parseBody: () => unknown;
  readonly hasBody: boolean;
}

export type Management = (call: ManagementCall) => Promise<Answer>;

export function createManagement(access: Access, directory: Directory): Management {
  return async ({ request, path }) => {
    const caller = access.authenticate(request);
    if (path.replace(/\/$/, "") === "/api/organizations") {
      const tenants = directory.tenants.filter(({ id }) => caller.organizations?.has(id) ?? true);
      return json(200, {
        results: tenants.map(({ id, name }) => ({ _id: id, displayName: name, logoUrl: "" })),
        totalCount: tenants.length,
      });
    }
    throw new Problem(404, "Not found");
  };
}
