import type { AclEntry, Admin } from "kafkajs";
import { expect } from "vitest";

/** `ANY` in a filter. */
const ANY = 1;

/** Sets rules. The broker applies them some time after it has answered, so this waits until it lists them. */
export async function setAcls(admin: Admin, acl: AclEntry[]): Promise<void> {
  await admin.createAcls({ acl });
  for (const entry of acl) await expect.poll(() => isListed(admin, entry)).toBe(true);
}

/** Removes all rules for these resources, and waits until the broker lists none. */
export async function removeAcls(admin: Admin, resources: readonly Resource[]): Promise<void> {
  const filters = resources.map((resource) => ({ ...named(resource), operation: ANY, permissionType: ANY }));
  if (filters.length > 0) await admin.deleteAcls({ filters });
  for (const filter of filters)
    await expect.poll(async () => (await admin.describeAcls(filter)).resources).toEqual([]);
}

type Resource = Pick<AclEntry, "resourceType" | "resourceName" | "resourcePatternType">;

function named({ resourceType, resourceName, resourcePatternType }: Resource): Resource {
  return { resourceType, resourceName, resourcePatternType };
}

async function isListed(admin: Admin, { operation, permissionType, ...entry }: AclEntry): Promise<boolean> {
  const { resources } = await admin.describeAcls({ ...named(entry), operation, permissionType });
  return resources.length > 0;
}
