/** A class of OCSF, as far as this program writes it. */
export interface OcsfClass {
  readonly uid: number;
  readonly name: string;
  readonly category: number;
  readonly categoryName: string;
  /** Captions of the activities by their id; 0 Unknown and 99 Other are understood. */
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
  /** An activity's id, or the name of one that the class does not know: activity 99. */
  readonly activity: number | string;
  readonly severity: number;
  /** On an account change: who initiated it may be the very user that it is about. */
  readonly self: boolean;
}

/** One version of the schema with the mapping that was made for it. */
export interface OcsfSchema {
  readonly version: string;
  readonly classes: Readonly<Record<ClassName, OcsfClass>>;
  rowOf(eventType: string): Row;
}
