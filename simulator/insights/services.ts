import { Problem } from "../http/problem.ts";

/** The values that a query's `service` may hold. */
export const serviceValues = [
  "access_management",
  "alert",
  "all",
  "directory",
  "ldap",
  "mdm",
  "notifications",
  "password_manager",
  "password_vault",
  "object_storage",
  "radius",
  "reports",
  "software",
  "sso",
  "systems",
  "asset_management",
  "genai",
  "aigw",
  "ai_admin",
  "generic_di",
] as const;

/** Where the events' own `service` differs from the value that asks for them. */
const eventNames: Readonly<Record<string, readonly string[]>> = {
  alert: ["alert", "alerts"],
  password_manager: ["password_manager", "password_vault"],
  password_vault: ["password_vault", "password_manager"],
  generic_di: ["generic_di", "di_events"],
};

/** The event services that are asked for, or null for all of them. */
export function wantedServices(asked: unknown): readonly string[] | null {
  if (!Array.isArray(asked) || asked.length === 0 || !asked.every((value) => typeof value === "string")) {
    throw new Problem(400, "service is required: a list of names", { extra: { supported: serviceValues } });
  }
  const unknown = asked.filter((value) => !(serviceValues as readonly string[]).includes(value));
  if (unknown.length > 0) {
    const message = `Invalid service ${JSON.stringify(unknown)}. Supported values: ${serviceValues.join(", ")}`;
    throw new Problem(400, message, { extra: { supported: serviceValues } });
  }
  if (asked.includes("all")) return null;
  return asked.flatMap((value) => eventNames[value] ?? [value]);
}
