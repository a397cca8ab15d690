import { Problem } from "../http/problem.ts";
import type { Users } from "./users.ts";
import type { World } from "./world.ts";

export interface Schedule {
  readonly id: string;
  readonly organization: string;
  readonly user: string;
  readonly state: "ACTIVATED" | "SUSPENDED";
  readonly at_ms: number;
}

/** State changes of users at a later time. */
export interface Schedules {
  add(schedule: Omit<Schedule, "id">, by: Readonly<Record<string, unknown>>): Schedule;
  resume(): void;
}

const by = { type: "system", source: "scheduled_user_state" };

export function createSchedules(world: World, users: Users): Schedules {
  const { db, clock } = world;

  function arm(schedule: Schedule): void {
    clock.at(schedule.at_ms, () => {
      db.prepare("UPDATE schedules SET done = 1 WHERE id = ?").run(schedule.id);
      try {
        const user = users.find(schedule.organization, schedule.user);
        if (schedule.state === "ACTIVATED") users.activate(user, by);
        else users.suspend(user, by);
      } catch (error) {
        // The user was deleted or suspended meanwhile: there is nothing to change.
        if (!(error instanceof Problem)) throw error;
      }
    });
  }

  return {
    add(wanted, initiator) {
      const schedule = { ...wanted, id: world.newId() };
      db.prepare("INSERT INTO schedules VALUES (@id, @organization, @user, @state, @at_ms, 0)").run(schedule);
      world.tell(schedule.organization, {
        event_type:
          schedule.state === "ACTIVATED"
            ? "user_activation_schedule_create"
            : "user_suspension_schedule_create",
        initiated_by: initiator,
        resource: { type: "user", id: schedule.user },
        auth_method: "api-key",
      });
      arm(schedule);
      return schedule;
    },
    resume() {
      for (const schedule of db.prepare<[], Schedule>("SELECT * FROM schedules WHERE done = 0").all())
        arm(schedule);
    },
  };
}
