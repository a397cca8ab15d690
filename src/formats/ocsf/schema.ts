/** The part of an OCSF class that this program writes. */
export interface OcsfClass {
  readonly uid: number;
  readonly name: string;
  readonly category: number;
  readonly categoryName: string;
  /** Captions of the activities by their id, without 0 (Unknown) and 99 (Other). */
  readonly activities: Readonly<Record<number, string>>;
  /** Whether actor and device belong to the class or come with the host profile. */
  readonly hostProfile: { readonly actor: boolean; readonly device: boolean };
}

export type ClassName =
  | "base_event"
  | "authentication"
  | "account_change"
  | "entity_management"
  | "user_access"
  | "group_management"
  | "detection_finding"
  | "device_config_state_change"
  | "web_resources_activity"
  | "application_lifecycle";

/** How an event type is written. */
export interface Row {
  readonly class: ClassName;
  /** An activity's id, or the name of one that the class does not define: activity 99. */
  readonly activity: number | string;
  /** True for account changes that people make to themselves: the actor may be the changed user. */
  readonly self: boolean;
}

/** One version of the schema with the mapping that was made for it. */
export interface OcsfSchema {
  readonly version: string;
  readonly classes: Readonly<Record<ClassName, OcsfClass>>;
  rowOf(eventType: string, service: string): Row;
}
