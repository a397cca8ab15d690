import { QueryError } from "./errors.ts";

/** The values of a query's `service` that the specification lists. */
const SERVICE_NAMES: readonly string[] = [
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
];

/** The events' own `service` where it differs from the name that asks for them. */
const EVENT_NAMES: Readonly<Record<string, readonly string[]>> = {
  alert: ["alert", "alerts"],
  alerts: ["alert", "alerts"],
  password_manager: ["password_manager", "password_vault"],
  password_vault: ["password_vault", "password_manager"],
  generic_di: ["generic_di", "di_events"],
  di_events: ["generic_di", "di_events"],
};

/** The event services that a query asks for; null means all. `further` names are accepted beside the listed ones. */
export function wantedServices(asked: unknown, further: readonly string[]): readonly string[] | null {
  const supported = [...SERVICE_NAMES, ...further];
  if (!Array.isArray(asked) || asked.length === 0 || !asked.every((value) => typeof value === "string")) {
    throw new QueryError(400, "service is required: a list of names", { supported });
  }
  const unknown = asked.filter((value) => !supported.includes(value));
  if (unknown.length > 0) {
    const message = `Invalid service ${JSON.stringify(unknown)}. Supported values: ${supported.join(", ")}`;
    throw new QueryError(400, message, { supported });
  }
  if (asked.includes("all")) return null;
  return asked.flatMap((value) => EVENT_NAMES[value] ?? [value]);
}
