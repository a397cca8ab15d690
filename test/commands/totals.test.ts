// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { afterEach, expect, test, vi } from "vitest";
import type { StatusView } from "../../src/core/view/status.ts";
import { openWorld, type World } from "../support/world.ts";

let world: World;
afterEach(() => world.close());

async function json<Value>(config: string, ...args: string[]): Promise<Value[]> {
  const { code, stdout } = await world.run([...args, "--json", "-c", config]);
  expect(code).toBe(0);
  const text = stdout.trim();
  return args[0] === "status"
    ? [JSON.parse(text) as Value]
    : text.split("\n").map((line) => JSON.parse(line));
}

interface Row {
  readonly account: string;
  readonly heldCount: number | null;
  readonly unreadHours: number;
  readonly readHours: number;
  readonly sealedHours: number;
}

test("R36 changed services, a second account, a new name and a removed organization: every place counts an event once", async () => {
  world = await openWorld({ events: 200 });
  const { insightsUrl, managementUrl, organizations } = world.simulator;
  const [removed, ...kept] = organizations.map(({ id }) => id);
  const service = `insightsUrl: '${insightsUrl}', managementUrl: '${managementUrl}', apiKey: { env: KEY }`;
  const second = (name: string, ids: readonly string[]) =>
    `organizations: [${ids.join(", ")}], since: 30d, services: [all] }\n  - { name: ${name}, ${service}, organizations: [${kept.join(", ")}], since: 30d`;
  const once = async (account: string) => {
    const config = world.configure({ account });
    const { code, stdout } = await world.run(["run", "--once", "-c", config]);
    expect({ code, stdout }).toMatchObject({ code: 0 });
    expect(stdout).toMatch(/Nothing (else )?is missing\./);
    return { config, stdout };
  };
  await once("organizations: all, since: 30d, services: [directory]");
  await once("organizations: all, since: 30d");
  await once(
    second(
      "other",
      organizations.map(({ id }) => id),
    ),
  );
  const { config, stdout } = await once(second("renamed", kept));

  const held = world.served().length;
  expect(world.lines()).toHaveLength(held);
  const [status] = await json<{ status: StatusView } & StatusView>(config, "status");
  const { totals } = status!.status ?? status!;
  expect(totals).toMatchObject({ events: held, apiCount: held, heldCount: held, differing: 0 });
  const text = (await world.run(["coverage", "-c", config])).stdout;
  expect(text).toContain(`The service counts ${held} events in closed time ranges, ${held} are held`);
  const rows = await json<Row>(config, "coverage");
  for (const { unreadHours, readHours, sealedHours } of rows)
    expect(unreadHours + readHours + sealedHours).toBeLessThanOrEqual(24.02);
  const own = rows.filter(({ account }) => account === "acme").map(({ heldCount }) => heldCount);
  if (!own.includes(null)) expect(own.reduce((sum, count) => sum! + count!, 0)).toBe(held);

  // Nothing was refused: the organization was taken out of the config.
  expect(stdout).not.toContain("refuses");
  expect(text).not.toContain("tried again");
  expect(text).toMatch(new RegExp(`${removed} +not in the config, read up to 20`));
  expect((await world.run(["status", "-c", config])).stdout).not.toContain("tried again");
});

test("an organization that was taken out of the config while the program was stopped is called that", async () => {
  world = await openWorld({ events: 60 });
  const [removed, ...kept] = world.simulator.organizations.map(({ id }) => id);
  await world.run(["run", "--once", "-c", world.configure()]);
  // The service's time has whole seconds.
  const startMs = Date.now();
  await vi.waitFor(() => expect(Date.now()).toBeGreaterThan(startMs + 2500), 60_000);
  const config = world.configure({ account: `organizations: [${kept.join(", ")}], since: 30d` });
  const { code, stdout } = await world.run(["run", "--once", "-c", config]);
  expect(code).toBe(0);
  expect(stdout).toContain("1 time range of organizations that are not in the config any more");
  expect(stdout).not.toMatch(/refuses|tried again/);
  const text = (await world.run(["coverage", "-c", config])).stdout;
  expect(text).toMatch(new RegExp(`${removed}.*not asked for: not in the config any more$`, "m"));
  expect(text).toMatch(new RegExp(`${removed}  \\(not in the config, read up to 20`));
  expect(text).toContain("0 refused at the moment, 1 not asked for.");
  expect((await world.run(["status", "-c", config])).stdout).toContain("not in the config, read up to 20");
});
