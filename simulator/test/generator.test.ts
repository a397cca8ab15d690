// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { createHash } from "node:crypto";
import { afterEach, describe, expect, it } from "vitest";
import { type Simulator, type SimulatorOptions, startSimulator } from "../index.ts";
import { type AnyEvent, ask, startTime, texts } from "./support.ts";

const still = { start: startTime, speed: 0 };

describe("generated events", () => {
  const open: Simulator[] = [];
  afterEach(async () => {
    for (const simulator of open.splice(0)) await simulator.close();
  });
  async function start(options: SimulatorOptions): Promise<Simulator> {
    const simulator = await startSimulator({ clock: still, ...options });
    open.push(simulator);
    return simulator;
  }
  const digest = (simulator: Simulator) => {
    const hash = createHash("sha256");
    for (const event of simulator.control.allEvents({ pending: true })) hash.update(event).update("\n");
    return hash.digest("hex");
  };

  it("are the same bytes for the same seed, and others for another", async () => {
    const options = { events: 5_000, organizations: 6, seed: 3 };
    const [one, two, other] = [
      await start(options),
      await start(options),
      await start({ ...options, seed: 4 }),
    ];
    expect(digest(one)).toBe(digest(two));
    expect(one.organizations).toEqual(two.organizations);
    expect(digest(other)).not.toBe(digest(one));
  });

  it("go on live with the same bytes, however often somebody looks", async () => {
    const options = { events: 100, liveEventsPerSecond: 5, seed: 3 };
    const [often, once] = [await start(options), await start(options)];
    for (let minute = 0; minute < 10; minute++) {
      often.control.clock.advance(60_000);
      await ask(often, { limit: 1 });
    }
    once.control.clock.advance(600_000);
    expect(often.control.countEvents({ pending: true })).toBeGreaterThan(1_000);
    expect(digest(often)).toBe(digest(once));
  });

  it("are exactly as many as asked for, about as large, and all are JSON", async () => {
    for (const eventBytes of [1024, 3000]) {
      const simulator = await start({ events: 8_000, eventBytes, lateness: "none" });
      const all = texts(simulator.control.allEvents());
      expect(all).toHaveLength(8_000);
      const mean = all.reduce((sum, event) => sum + Buffer.byteLength(event), 0) / all.length;
      expect(Math.abs(mean - eventBytes) / eventBytes).toBeLessThan(0.1);
      for (const event of all) JSON.parse(event);
    }
  });

  it("tell stories: a login on a system, then the directory, then single sign-on, by one user", async () => {
    const simulator = await start({ events: 8_000, organizations: 2, lateness: "none" });
    const all = texts(simulator.control.allEvents()).map((event) => JSON.parse(event) as AnyEvent);
    const user = all.find(
      ({ event_type, initiated_by }) => event_type === "sso_auth" && initiated_by.username,
    )!.initiated_by.username;
    const own = all.filter((event) => event.username === user || event.initiated_by?.username === user);
    const services = new Set(own.map(({ service }) => service));
    expect([...services]).toEqual(expect.arrayContaining(["systems", "directory", "sso"]));
  });

  it("follow the day: office hours on weekdays carry most of them", async () => {
    const simulator = await start({ events: 10_000, days: 28, lateness: "none" });
    const hours = texts(simulator.control.allEvents()).map(
      (event) => new Date((JSON.parse(event) as AnyEvent).timestamp),
    );
    const busy = hours.filter(
      (date) => date.getUTCDay() % 6 !== 0 && date.getUTCHours() >= 8 && date.getUTCHours() < 18,
    );
    expect(busy.length / hours.length).toBeGreaterThan(0.5);
  });

  it("come from organizations of very different size, or of the weights that are given", async () => {
    const many = await start({ events: 10_000, organizations: 50, lateness: "none" });
    const sizes = many.organizations.map(({ id }) => many.control.countEvents({ organization: id }));
    expect(Math.max(...sizes)).toBeGreaterThan(20 * Math.min(...sizes));
    const id = "0123456789abcdef01234567";
    const given = await start({
      events: 4_000,
      organizations: [{ id, name: "big", weight: 9 }, { weight: 1 }],
      lateness: "none",
    });
    expect(given.organizations[0]).toEqual({ id, name: "big" });
    expect(given.control.countEvents({ organization: id })).toBeGreaterThan(3_200);
  });

  it("have equal timestamps across page edges", async () => {
    const simulator = await start({ events: 6_000, organizations: 3, lateness: "none", futureShare: 0 });
    const all = (await ask(simulator, { limit: 10_000 })).body;
    for (const limit of [100, 500, 1000, 2000, 5000]) {
      expect(all[limit]!.timestamp, String(limit)).toBe(all[limit - 1]!.timestamp);
    }
  });

  it("are all different, also those without an id at equal timestamps", async () => {
    // With this start, two operations of one LDAP connection would be equal byte for byte.
    const clock = { start: "2026-11-16T10:10:00Z", speed: 0 };
    const size = { events: 9000, organizations: 5, days: 10, eventBytes: 600 };
    const simulator = await start({ ...size, lateness: "none", clock });
    const all = texts(simulator.control.allEvents({ pending: true }));
    expect(new Set(all).size).toBe(all.length);
  });

  it("hold the oddities that clients meet", async () => {
    const simulator = await start({ events: 40_000, organizations: 3, lateness: "none" });
    const seen = { large: 0, upper: 0, hex: 0, noId: 0, noType: 0, bigNumber: 0, nonAscii: 0, nestedGeo: 0 };
    for (const event of simulator.control.allEvents()) {
      const text = Buffer.from(event).toString();
      const id = /"id":"([^"]*)"/.exec(text)?.[1] ?? "";
      seen.large += event.length > 8_000 ? 1 : 0;
      seen.upper += /^[0-9A-F]{8}-/.test(id) && /[A-F]/.test(id) ? 1 : 0;
      seen.hex += /^[0-9a-f]{24}$/.test(id) ? 1 : 0;
      seen.noId += text.includes('"service":"ldap"') && !text.startsWith('{"id"') ? 1 : 0;
      seen.noType += text.includes('"event_type"') ? 0 : 1;
      seen.bigNumber += /"sequence":9007199254740993\d/.test(text) ? 1 : 0;
      seen.nonAscii += text.length === event.length ? 0 : 1;
      seen.nestedGeo += text.includes('"geoip":{"geoip"') ? 1 : 0;
    }
    for (const [oddity, count] of Object.entries(seen)) expect(count, oddity).toBeGreaterThan(0);
  });

  it("stamp some live events ahead of the clock when asked to", async () => {
    const simulator = await start({
      events: 0,
      liveEventsPerSecond: 20,
      futureShare: 0.05,
      lateness: "none",
    });
    simulator.control.clock.advance(300_000);
    const { nowMs } = simulator.control.clock.read();
    const { body } = await ask(simulator, { limit: 10_000 });
    expect(body.filter(({ timestamp }) => Date.parse(timestamp) > nowMs).length).toBeGreaterThan(5);
  });

  it("hide late ones according to the distribution", async () => {
    const simulator = await start({
      events: 0,
      lateness: { typicalMs: 1_000, lateShare: 0.3, lateMs: 600_000, tailShare: 0, tailMs: 0 },
    });
    simulator.control.burst(1_000);
    const visible = (advanceMs: number) => {
      simulator.control.clock.advance(advanceMs);
      return simulator.control.countEvents();
    };
    const soon = visible(10_000);
    expect(soon).toBeGreaterThan(650);
    expect(soon).toBeLessThan(800);
    expect(visible(590_000)).toBe(1_000);
  });
});
