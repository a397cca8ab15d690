import { z } from "zod";
import { NonsenseError } from "../errors.ts";
import type { Caller } from "./call.ts";
import { collected, listSchema, paged } from "./paging.ts";

const organizationSchema = z.looseObject({
  _id: z.string().min(1),
  displayName: z.string().nullish().catch(undefined),
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
/** Of a list that never ends, so much would fill the memory. The largest providers have ten thousand. */
const ORGANIZATIONS_MAX = 100_000;
const NAME_LENGTH_MAX = 256;
const LIST_LENGTH_MAX = 20_000_000;

/** Keeps no more of an organization than is used. A copy, because a part of a text keeps all of it in memory. */
function kept({ _id, displayName }: Organization): Organization {
  if (typeof displayName !== "string") return { _id };
  const isLong = displayName.length > NAME_LENGTH_MAX;
  return {
    _id,
    displayName: isLong ? Buffer.from(displayName.slice(0, NAME_LENGTH_MAX)).toString() : displayName,
  };
}

function refuseEndless(organizations: number, length: number): void {
  if (organizations <= ORGANIZATIONS_MAX && length <= LIST_LENGTH_MAX) return;
  throw new NonsenseError(
    `The service's list of organizations does not end: it had ${organizations} of them when it was given up. Ask the vendor why it names so many.`,
  );
}

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
      let length = 0;
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
        const short = kept(organization);
        length += short._id.length + (short.displayName?.length ?? 0);
        refuseEndless(listed.length, length);
        yield short;
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
