import { z } from "zod";
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

export function organizationCalls(call: Caller): OrganizationCalls {
  const organizations = listSchema(organizationSchema);
  const directories = listSchema(directorySchema);
  return {
    organizations: (signal) =>
      paged(
        PAGE_SIZE,
        (organization: Organization) => organization._id,
        (skip, limit) =>
          call({
            method: "GET",
            path: "/organizations/",
            query: { sort: "_id", skip, limit },
            answer: organizations,
            signal,
          }),
      ),
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
