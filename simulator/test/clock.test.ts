import { afterEach, describe, expect, it } from "vitest";
import type { Simulator, SimulatorOptions } from "../index.ts";
import { ask, call, readAll, startStill, startTime, texts } from "./support.ts";

describe("the simulator's clock", () => {
  const open: Simulator[] = [];
  afterEach(async () => {
    for (const simulator of open.splice(0)) await simulator.close();
  });
  async function start(options: SimulatorOptions = {}): Promise<Simulator> {
    const simulator = await startStill({ events: 300, ...options });
    open.push(simulator);
    return simulator;
  }

  it("rules the Date header, and can be set, skewed and sped up", async () => {
    const simulator = await start({ clock: { start: startTime, speed: 0, skewMs: 90_000 } });
    const date = async () => (await ask(simulator, { limit: 1 })).headers.date;
    expect(await date()).toBe("Sat, 01 Mar 2025 12:01:30 GMT");
    simulator.control.clock.setSkew(0);
    expect(await date()).toBe("Sat, 01 Mar 2025 12:00:00 GMT");
    simulator.control.clock.set("2025-03-02T00:00:00Z");
    expect(await date()).toBe("Sun, 02 Mar 2025 00:00:00 GMT");
    simulator.control.clock.setSpeed(100_000);
    await expect
      .poll(() => simulator.control.clock.read().nowMs)
      .toBeGreaterThan(Date.parse("2025-03-02T00:10:00Z"));
  });

  it("makes a late event visible at its own place, behind a cursor that only moves forward", async () => {
    const simulator = await start();
    const [organization] = simulator.organizations;
    const only = { "x-org-id": organization!.id };
    const late = { service: "alert", event_type: "late", timestamp: "2025-02-20T00:00:00.000000001Z" };
    simulator.control.append(organization!.id, [late], 6 * 3_600_000);
    const pageBefore = await ask(simulator, { limit: 10_000 }, only);
    expect(pageBefore.body.some(({ event_type }) => event_type === "late")).toBe(false);
    simulator.control.clock.advance(6 * 3_600_000);
    const after = await ask(
      simulator,
      { limit: 10_000, search_after: JSON.parse(pageBefore.headers["x-search_after"]!) },
      only,
    );
    expect(after.body).toEqual([]);
    const again = (await ask(simulator, { limit: 10_000 }, only)).body;
    const at = again.findIndex(({ event_type }) => event_type === "late");
    expect(again).toHaveLength(pageBefore.body.length + 1);
    expect(again[at - 1]!.timestamp <= late.timestamp && again[at + 1]!.timestamp > late.timestamp).toBe(
      true,
    );
  });

  it("indexes history late as well: a tail of it appears as time goes on, and nothing disappears", async () => {
    const simulator = await start({
      events: 3_000,
      days: 1,
      lateness: {
        typicalMs: 60_000,
        lateShare: 0.2,
        lateMs: 3_600_000,
        tailShare: 0.05,
        tailMs: 6 * 3_600_000,
      },
    });
    const all = texts(simulator.control.allEvents({ pending: true }));
    const before = new Set(texts(simulator.control.allEvents()));
    expect(before.size).toBeLessThan(all.length);
    simulator.control.clock.advance(6 * 3_600_000);
    const after = new Set(texts(simulator.control.allEvents()));
    expect(after.size).toBe(all.length);
    for (const event of before) expect(after.has(event)).toBe(true);
    simulator.control.clock.set(startTime);
    expect(texts(simulator.control.allEvents())).toHaveLength(all.length);
  });

  it("forgets events after 90 days of it", async () => {
    const simulator = await start();
    const total = (await readAll(simulator, {})).length;
    simulator.control.clock.advance(80 * 86_400_000);
    const left = (await readAll(simulator, {})).length;
    expect(left).toBeLessThan(total);
    simulator.control.clock.advance(11 * 86_400_000);
    expect(await readAll(simulator, {})).toEqual([]);
    expect(simulator.control.countEvents()).toBeGreaterThanOrEqual(total);
  });

  it("expires an OAuth token, with which x-org-id is mandatory", async () => {
    const simulator = await start({ organizations: 1, tokenSeconds: 60 });
    const { clientId, clientSecret, tokenUrl } = simulator.oauth;
    const basic = `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString("base64")}`;
    const form = { authorization: basic, "content-type": "application/x-www-form-urlencoded" };
    const { body } = await call<{ access_token: string; expires_in: number }>(
      "POST",
      tokenUrl,
      form,
      "scope=api&grant_type=client_credentials",
    );
    expect(body.expires_in).toBe(60);
    const query = { service: ["all"], start_time: "2025-01-01T00:00:00Z" };
    const read = (headers: Record<string, string>) =>
      call(
        "POST",
        `${simulator.insightsUrl}/insights/directory/v1/events`,
        { authorization: `Bearer ${body.access_token}`, ...headers },
        query,
      );
    expect((await read({ "x-org-id": simulator.organizations[0]!.id })).status).toBe(200);
    expect((await read({})).status).toBe(401);
    simulator.control.clock.advance(60_000);
    expect((await read({ "x-org-id": simulator.organizations[0]!.id })).status).toBe(401);
    expect(
      (
        await call(
          "POST",
          tokenUrl,
          { ...form, authorization: "Basic eDp5" },
          "scope=api&grant_type=client_credentials",
        )
      ).status,
    ).toBe(401);
  });
});
