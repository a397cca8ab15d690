import type { Clock } from "./clock.ts";
import type { Log } from "./log.ts";

/** Every kind of alarm; docs/operations.md explains each. */
export const ALARM_KINDS = [
  "account_refused",
  "organization_refused",
  "discovery_failed",
  "window_failing",
  "loss_near",
  "loss_of_refused_near",
  "expired",
  "history_limited",
  "foreign_events",
  "oversized_event",
  "unreadable_event",
  "service_wait",
  "no_service_time",
  "wrong_service_time",
  "unordered_answers",
  "state_unwritable",
  "journal_filling",
  "sink_failing",
  "sink_paused",
  "sink_stopped",
  "archive_failing",
  "archive_stopped",
  "archive_behind",
  "archive_invalid",
  "archive_differs",
  "witness_away",
  "index_failing",
  "sink_behind",
  "sink_limited",
  "conversion_differs",
  "dead_letters",
  "import_failed",
  "import_missed",
  "import_overlapped",
  "lane_stopped",
  "lane_failing",
  "lane_without_owner",
  "cluster_silent",
  "machine_left",
  "machine_name_taken",
  "cluster_topics",
  "config_differs",
] as const;
export type AlarmKind = (typeof ALARM_KINDS)[number];

/** A condition that a person should know about: its subject, since when, its meaning and a remedy. */
export interface Alarm {
  readonly kind: AlarmKind;
  /** An account, a sink, an organization. */
  readonly subject: string;
  readonly message: string;
  readonly remedy: string;
  readonly severity: "warning" | "critical";
  readonly sinceMs: number;
}

export interface Alarms {
  /** Logged when it is new or its message or severity has changed. */
  raise(alarm: Omit<Alarm, "sinceMs">): void;
  clear(kind: AlarmKind, subject: string): void;
  list(): readonly Alarm[];
}

export function createAlarms(clock: Clock, log: Log): Alarms {
  const active = new Map<string, Alarm>();
  return {
    raise(alarm) {
      const key = `${alarm.kind} ${alarm.subject}`;
      const before = active.get(key);
      active.set(key, { ...alarm, sinceMs: before?.sinceMs ?? clock.now() });
      if (before !== undefined && before.message === alarm.message && before.severity === alarm.severity)
        return;
      const fields = {
        kind: alarm.kind,
        subject: alarm.subject,
        message: alarm.message,
        remedy: alarm.remedy,
      };
      if (alarm.severity === "critical") log.error(fields, "Alarm raised.");
      else log.warn(fields, "Alarm raised.");
    },
    clear(kind, subject) {
      const alarm = active.get(`${kind} ${subject}`);
      if (alarm === undefined) return;
      active.delete(`${kind} ${subject}`);
      log.info({ kind, subject, stoodMs: clock.now() - alarm.sinceMs }, "Alarm cleared.");
    },
    list: () => [...active.values()],
  };
}
