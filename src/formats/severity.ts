import { EFFECT_SEVERITY } from "../core/effect.ts";
import { type Meaning, wordOf } from "../core/meaning.ts";

/*
 * One table for all formats. Severities are those of OCSF: 1 informational, 2 low, 3 medium, 4 high,
 * 5 critical, 6 fatal. ECS writes the same numbers, CEF and LEEF write them on their scale to 10.
 */

const WORDS: ReadonlyMap<string, number> = new Map([
  ["info", 1],
  ["informational", 1],
  ["low", 2],
  ["medium", 3],
  ["moderate", 3],
  ["high", 4],
  ["critical", 5],
  ["fatal", 6],
]);

const LOW = 2;
const MEDIUM = 3;

/** Event types that are not here are informational. */
const BY_TYPE: ReadonlyMap<string, number> = table([
  [LOW, "admin_delete user_delete system_delete report_export authnpolicy_update cert_issued_manual"],
  [LOW, "os_major_rollback os_minor_rollback passwordmanager_item_reveal passwordvault_credential_reveal"],
  [LOW, "passwordvault_credential_viewsecret scheduled_report_run_failed"],
  [MEDIUM, "admin_create ca_created authnpolicy_delete policy_delete risk_event_created alert_created"],
  [MEDIUM, "system_fde_key_decrypt passwordmanager_items_export passwordvault_credential_export"],
  [MEDIUM, "passwordvault_websites_export"],
]);

/** The event's own word, else the highest of its type, its effects and its outcome. */
export function severityOf(eventType: string, meaning: Meaning): number {
  const own = ownSeverity(meaning);
  if (own !== undefined) return own;
  let highest = BY_TYPE.get(eventType) ?? 1;
  if (meaning.outcome.is === "failure") highest = Math.max(highest, LOW);
  for (const effect of meaning.effects) highest = Math.max(highest, EFFECT_SEVERITY[effect] ?? 1);
  return highest;
}

/** Undefined where the event has no word for its severity, or one that is not known. */
export function ownSeverity({ risk }: Meaning): number | undefined {
  return risk && WORDS.get(wordOf(risk));
}

const OF_TEN = [0, 2, 3, 5, 8, 10, 10] as const;

/** The scale of CEF and LEEF. */
export function severityOfTen(eventType: string, meaning: Meaning): number {
  return OF_TEN[severityOf(eventType, meaning)] ?? 2;
}

function table(entries: readonly (readonly [number, string])[]): ReadonlyMap<string, number> {
  return new Map(entries.flatMap(([severity, types]) => types.split(" ").map((type) => [type, severity])));
}
