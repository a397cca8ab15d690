import { CONVERTED_BYTES_MAX, costly } from "../core/costly.ts";
import type { JournalEvent } from "../core/event.ts";
import type { Described } from "../core/meaning.ts";
import type { ServiceDefinition } from "../core/service.ts";
import { accessManagement } from "./access-management.ts";
import { alert } from "./alert.ts";
import { directory } from "./directory.ts";
import { fallback } from "./fallback.ts";
import { ldap } from "./ldap.ts";
import { mdm } from "./mdm.ts";
import { notifications } from "./notifications.ts";
import { objectStorage } from "./object-storage.ts";
import { parseEvent } from "./parse.ts";
import { passwordVault } from "./password-vault.ts";
import { radius } from "./radius.ts";
import { reports } from "./reports.ts";
import { saasAppManagement } from "./saas-app-management.ts";
import { software } from "./software.ts";
import { sso } from "./sso.ts";
import { systems } from "./systems.ts";

export const services: readonly ServiceDefinition[] = [
  accessManagement,
  alert,
  directory,
  ldap,
  mdm,
  notifications,
  objectStorage,
  passwordVault,
  radius,
  reports,
  saasAppManagement,
  software,
  sso,
  systems,
  fallback,
];

const byName: ReadonlyMap<string, ServiceDefinition> = new Map(
  services.flatMap((service) => [service.name, ...(service.aliases ?? [])].map((name) => [name, service])),
);

/** The service with this name, in any case; the fallback where none is known. */
export function serviceOf(name: string): ServiceDefinition {
  return byName.get(name) ?? byName.get(name.toLowerCase()) ?? fallback;
}

/** As `describe`, for formats: throws for an event that is too large to be converted. */
export function describeForFormat(event: JournalEvent): Described {
  if (costly(event.bytes) === "too large")
    throw new Error(
      `its ${event.size} bytes are more than the ${CONVERTED_BYTES_MAX} that Tidemark converts. The format raw takes it as it is`,
    );
  return describe(event);
}

/** Parses the bytes of an event once and describes it. Never throws; each call returns a new object. */
export function describe(event: JournalEvent): Described {
  const { event: fields, unreadable: reason } = parseEvent(event.bytes);
  const unreadable = reason !== undefined;
  const service = unreadable ? fallback : serviceOf(event.service);
  return { service: service.name, event: fields, meaning: service.describe(fields), unreadable };
}
