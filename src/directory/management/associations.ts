import { z } from "zod";
import type { CallOptions } from "./applications.ts";
import { type Caller, pathOf } from "./call.ts";
import { anything, type Raw, rawField } from "./fields.ts";
import { collected, listSchema, paged } from "./paging.ts";

export type AssociationOperation = "add" | "remove";

const associationSchema = z.looseObject({ to: z.looseObject({ type: z.string(), id: z.string() }) });
export type AssociationRow = z.output<typeof associationSchema>;
const associations = listSchema(associationSchema);

export interface AssociationCalls {
  /** Binds (add) or unbinds (remove) a user or a group of users. */
  associateApplication(
    application: string,
    operation: AssociationOperation,
    target: { readonly type: "user_group" | "user"; readonly id: string },
    options: CallOptions,
  ): Promise<void>;
  applicationAssociations(
    application: string,
    targets: "user_group" | "user",
    options: CallOptions,
  ): Promise<readonly AssociationRow[]>;
  /** The users that are bound, directly or through a group. */
  applicationUsers(application: string, options: CallOptions): AsyncGenerator<Raw, void, undefined>;
}

const PAGE_SIZE = 100;

export function pagedAssociations(
  call: Caller,
  path: string,
  targets: string | undefined,
  options: CallOptions,
): AsyncGenerator<AssociationRow, void, undefined> {
  return paged(
    PAGE_SIZE,
    ({ to }: AssociationRow) => `${to.type} ${to.id}`,
    (skip, limit) =>
      call({ method: "GET", path, ...options, query: { targets, limit, skip }, answer: associations }),
  );
}

export function associationCalls(call: Caller): AssociationCalls {
  return {
    async associateApplication(application, op, { type, id }, options) {
      const path = pathOf`/v2/applications/${application}/associations`;
      await call({ method: "POST", path, ...options, body: { op, type, id }, answer: anything });
    },
    applicationAssociations: (application, targets, options) =>
      collected(
        pagedAssociations(call, pathOf`/v2/applications/${application}/associations`, targets, options),
      ),
    applicationUsers(application, options) {
      const path = pathOf`/v2/applications/${application}/users`;
      return paged(
        PAGE_SIZE,
        (user: Raw) => String(user.id ?? user._id ?? JSON.stringify(user)),
        (skip, limit) =>
          call({ method: "GET", path, ...options, query: { limit, skip }, answer: listSchema(rawField) }),
      );
    },
  };
}
