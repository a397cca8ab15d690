import { z } from "zod";
import { NonsenseError } from "../errors.ts";
import type { Caller } from "./call.ts";
import { collected, listSchema, paged } from "./paging.ts";

const organizationSchema = z.looseObject({
  _id: z.string().min(1),
  displayName: z.string().nullish().catch(undefined),
  logoUrl: z.string().nullish().catch(undefined),
});
export type Organization = z.output<typeof organizationSchema>;

const directorySchema = z.looseObject({
  id: z.string().nullish().catch(undefined),
  name: z.string().nullish().catch(undefined),
  type: z.string().nullish().catch(undefined),
});
export type Directory = z.output<typeof directorySchema>;

export interface OrganizationCalls {
  /** All managed organizations; asked with the primary organization's key, without an organization header. */
  organizations(signal: AbortSignal): AsyncGenerator<Organization, void, undefined>;
  /** The directories of one organization. */
  directories(organization: string | undefined, signal: AbortSignal): Promise<readonly Directory[]>;
}

const PAGE_SIZE = 100;

/** An organization that is missing from the list would not be read any more, so a list that may be cut is not used. */
function refuseShort(listed: number, stated: number | undefined): void {
  if (listed === 0) throw new NonsenseError("The service answers with an empty list of organizations.");
  if (stated !== undefined && listed < stated)
    throw new NonsenseError(
      `The service lists ${listed} organizations, although it says that there are ${stated}.`,
    );
}

function countById(organizations: readonly Organization[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { _id } of organizations) counts.set(_id, (counts.get(_id) ?? 0) + 1);
  return counts;
}

export function organizationCalls(call: Caller): OrganizationCalls {
  const organizations = listSchema(organizationSchema);
  const directories = listSchema(directorySchema);
  return {
    async *organizations(signal) {
      const listed: string[] = [];
      let stated: number | undefined;
      /** How often one page shows an organization: a repeated row counts in the total, and is taken once. */
      const rows = new Map<string, number>();
      const found = paged(
        PAGE_SIZE,
        (organization: Organization) => organization._id,
        async (skip, limit) => {
          const query = { sort: "_id", skip, limit };
          const list = { method: "GET", path: "/organizations/", query, answer: organizations } as const;
          const page = await call({ ...list, signal });
          stated = page.totalCount;
          for (const [id, count] of countById(page.items)) rows.set(id, Math.max(count, rows.get(id) ?? 0));
          return page;
        },
        { isSorted: true },
      );
      for await (const organization of found) {
        listed.push(organization._id);
        yield organization;
      }
      refuseShort(
        listed.reduce((sum, id) => sum + (rows.get(id) ?? 1), 0),
        stated,
      );
    },
    directories: (organization, signal) =>
      collected(
        paged(
          PAGE_SIZE,
          (directory: Directory) => directory.id ?? JSON.stringify(directory),
          (skip, limit) =>
            call({
              method: "GET",
              path: "/v2/directories",
              organization,
              query: { limit, skip },
              answer: directories,
              signal,
            }),
        ),
      ),
  };
}
