import { textAt } from "../shared/json-slices.ts";

/** The OCSF classes that the format writes, by their uid. */
const CLASSES: Readonly<Record<number, string>> = {
  0: "base_event",
  2004: "detection_finding",
  3001: "account_change",
  3002: "authentication",
  3004: "entity_management",
  3005: "user_access",
  3006: "group_management",
  5019: "device_config_state_change",
  6001: "web_resources_activity",
  6002: "application_lifecycle",
};

export const CLASS_NAMES: readonly string[] = Object.values(CLASSES);

/** The class of a line of OCSF, which begins with it. */
export function classUidOf(line: Uint8Array): number {
  const start = textAt(line, { from: 0, to: Math.min(line.length, 64) });
  return Number(/^\{"class_uid":(\d{1,9}),/.exec(start)?.[1] ?? 0);
}

/** The custom source of a class. A class without a name has its number in the source's name. */
export function lakeSourceOf(
  classUid: number,
  config: { readonly sourcePrefix: string; readonly sources: Readonly<Record<string, string>> },
): string {
  const name = CLASSES[classUid] ?? `class_${classUid}`;
  return Object.hasOwn(config.sources, name) ? config.sources[name]! : `${config.sourcePrefix}_${name}`;
}
