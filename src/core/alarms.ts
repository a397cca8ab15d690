import type { Clock } from "./clock.ts";
import type { Log } from "./log.ts";

/** Something a person has to know: what it is about, since when, what it means and what to do. */
export interface Alarm {
  /** The kind of alarm, as the operations guide lists it. */
  readonly kind: string;
  /** What it is about: an account, a sink, an organization. */
  readonly subject: string;
  readonly message: string;
  readonly remedy: string;
  readonly severity: "warning" | "critical";
  readonly sinceMs: number;
}

export interface Alarms {
  /** Logged when it is new or its message changed; quiet while it stands. */
  raise(alarm: Omit<Alarm, "sinceMs">): void;
  clear(kind: string, subject: string): void;
  list(): readonly Alarm[];
}

export function createAlarms(clock: Clock, log: Log): Alarms {
  const standing = new Map<string, Alarm>();
  return {
    raise(alarm) {
      const key = `${alarm.kind} ${alarm.subject}`;
      const before = standing.get(key);
      standing.set(key, { ...alarm, sinceMs: before?.sinceMs ?? clock.now() });
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
      const alarm = standing.get(`${kind} ${subject}`);
      if (alarm === undefined) return;
      standing.delete(`${kind} ${subject}`);
      log.info({ kind, subject, stoodMs: clock.now() - alarm.sinceMs }, "Alarm cleared.");
    },
    list: () => [...standing.values()],
  };
}
