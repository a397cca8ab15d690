import type { CallOptions } from "./applications.ts";
import { type AssociationOperation, type AssociationRow, pagedAssociations } from "./associations.ts";
import { type Caller, pathOf } from "./call.ts";
import { anything, type Raw, rawField } from "./fields.ts";
import { merged } from "./merge.ts";
import { collected, listSchema, paged } from "./paging.ts";

/** The endpoints about systems: with a key for an administrator, with signed requests for a system about itself. */
export interface SystemCalls {
  system(id: string, options: CallOptions): Promise<Raw>;
  /** PUT: only the given fields are sent. */
  replaceSystem(id: string, system: Raw, options: CallOptions): Promise<Raw>;
  /** GET, merge, PUT. */
  updateSystem(id: string, changes: Raw, options: CallOptions): Promise<Raw>;
  /** The system leaves the organization. */
  deleteSystem(id: string, options: CallOptions): Promise<void>;
  systemGroups(id: string, options: CallOptions): Promise<readonly Raw[]>;
  systemAssociations(
    id: string,
    targets: string | undefined,
    options: CallOptions,
  ): Promise<readonly AssociationRow[]>;
  associateSystem(
    id: string,
    operation: AssociationOperation,
    target: { readonly type: string; readonly id: string },
    options: CallOptions,
  ): Promise<void>;
  systemUsers(id: string, options: CallOptions): Promise<readonly Raw[]>;
  /** Puts a system into a group or takes it out; a system may do this for itself alone. */
  changeGroupMember(
    group: string,
    operation: AssociationOperation,
    system: string,
    options: CallOptions,
  ): Promise<void>;
}

const PAGE_SIZE = 100;

export function systemCalls(call: Caller): SystemCalls {
  const list = (path: string, options: CallOptions) =>
    collected(
      paged(
        PAGE_SIZE,
        (one: Raw) => String(one.id ?? one._id ?? JSON.stringify(one)),
        (skip, limit) =>
          call({ method: "GET", path, ...options, query: { limit, skip }, answer: listSchema(rawField) }),
      ),
    );
  const system = (id: string, options: CallOptions) =>
    call({ method: "GET", path: pathOf`/systems/${id}`, ...options, answer: rawField });
  const replaceSystem = (id: string, body: Raw, options: CallOptions) =>
    call({ method: "PUT", path: pathOf`/systems/${id}`, ...options, body, answer: rawField });
  return {
    system,
    replaceSystem,
    updateSystem: async (id, changes, options) =>
      replaceSystem(id, merged(await system(id, options), changes), options),
    async deleteSystem(id, options) {
      await call({ method: "DELETE", path: pathOf`/systems/${id}`, ...options, answer: anything });
    },
    systemGroups: (id, options) => list(pathOf`/v2/systems/${id}/memberof`, options),
    systemAssociations: (id, targets, options) =>
      collected(pagedAssociations(call, pathOf`/v2/systems/${id}/associations`, targets, options)),
    async associateSystem(id, op, target, options) {
      const path = pathOf`/v2/systems/${id}/associations`;
      await call({ method: "POST", path, ...options, body: { op, ...target }, answer: anything });
    },
    systemUsers: (id, options) => list(pathOf`/v2/systems/${id}/users`, options),
    async changeGroupMember(group, op, id, options) {
      const path = pathOf`/v2/systemgroups/${group}/members`;
      await call({ method: "POST", path, ...options, body: { op, type: "system", id }, answer: anything });
    },
  };
}
