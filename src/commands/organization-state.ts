import { ACCOUNT_NOT_IN_CONFIG, NOT_LISTED } from "../core/roster.ts";
import type { OrganizationView } from "../core/view/organizations.ts";

/** The state of an organization in words: one that is not read says why, and up to when it was read. */
export function stateText({
  state,
  reason,
  readToMs,
}: Pick<OrganizationView, "state" | "reason" | "readToMs">): string {
  if (state !== "vanished") return state;
  const why = reason?.startsWith(NOT_LISTED)
    ? "not listed"
    : reason === ACCOUNT_NOT_IN_CONFIG
      ? "account not in the config"
      : "not in the config";
  return readToMs === null ? why : `${why}, read up to ${minuteText(readToMs)}`;
}

export function minuteText(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 16)}Z`;
}
