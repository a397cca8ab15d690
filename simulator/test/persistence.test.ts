import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { startSimulator } from "../index.ts";
import { manage, startTime, texts } from "./support.ts";

describe("a world in a file", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "simulator-file-"));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it("comes back with its organizations, users, events and unfinished jobs", async () => {
    const file = join(folder, "world.db");
    const options = {
      file,
      seed: 5,
      organizations: 3,
      events: 400,
      liveEventsPerSecond: 2,
      imports: { sourceUsers: 20, usersPerSecond: 1, failureShare: 0 },
    };
    const first = await startSimulator({ ...options, clock: { start: startTime, speed: 0 } });
    const organization = first.organizations[0]!.id;
    const application = first.control.world.importApplication(organization);
    const job = (
      await manage<{ _id: string }>(first, "POST", `/v2/applications/${application}/import/jobs`, {
        operations: ["users.create"],
      })
    ).body._id;
    first.control.clock.advance(5_000);
    await expect
      .poll(
        () => first.control.world.importJobUsers(job).filter(({ outcome }) => outcome !== "pending").length,
      )
      .toBe(5);
    first.control.append(organization, ['{"timestamp":"2025-03-01T12:00:01Z","service":"sso","number":1.0}']);
    const before = texts(first.control.allEvents({ pending: true })).sort();
    const users = first.control.world.users(organization);
    await first.close();

    const second = await startSimulator({
      file,
      events: 7,
      clock: { start: "2025-03-01T12:00:05Z", speed: 0 },
    });
    try {
      expect(second.organizations).toEqual(first.organizations);
      expect(texts(second.control.allEvents({ pending: true })).sort()).toEqual(before);
      expect(second.control.world.users(organization)).toEqual(users);
      second.control.clock.advance(60_000);
      await expect
        .poll(() => second.control.world.importJobs().find(({ id }) => id === job)!.finished)
        .not.toBeNull();
    } finally {
      await second.close();
    }
  });
});
