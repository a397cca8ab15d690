import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { shareOf } from "../../src/core/shard.ts";
import { skipUnless } from "../support/components.ts";
import {
  type Broker,
  findKafka,
  KAFKA_REMEDY,
  QUICK_RESTART,
  startBroker,
  startBrokers,
} from "../support/kafka.ts";
import { type ClusterScene, openClusterScene } from "./machines-campaign.ts";
import { type OtherSinks, openOtherSinks } from "./other-sinks-campaign.ts";
import { createStrikes, KINDS, MACHINES, seeded } from "./strikes-campaign.ts";

const jars = await findKafka();
/** How many faults the campaign has. CI runs a short one. */
const FAULTS = Number(process.env.TIDEMARK_CLUSTER_FAULTS ?? 3);
const LANES = Number(process.env.TIDEMARK_CLUSTER_LANES ?? 4);
const EVENTS = Number(process.env.TIDEMARK_CLUSTER_EVENTS ?? 1500);
/** Brokers as processes of their own; the long campaign has three. */
const BROKERS = Number(process.env.TIDEMARK_CLUSTER_BROKERS ?? 1);
const SEED = Number(process.env.TIDEMARK_CLUSTER_SEED ?? 1);
/** Blows that come together in the long campaign. */
const BURST_MAX = FAULTS > 3 ? 4 : 1;
const RUNNING_MS_MAX = 400_000;

describe.skipIf(skipUnless("kafka", jars, KAFKA_REMEDY))("machines of a cluster", () => {
  let broker: Broker;
  let scene: ClusterScene;
  let others: OtherSinks;
  beforeAll(async () => {
    broker =
      BROKERS > 1
        ? await startBrokers(jars!, BROKERS)
        : await startBroker(jars!, { properties: QUICK_RESTART });
    others = await openOtherSinks(FAULTS > 3);
    scene = await openClusterScene(broker, LANES, EVENTS, others);
  });
  afterAll(async () => {
    await scene?.close();
    await others?.close();
    await broker?.remove();
  });

  test(
    "lost 0, twice 0: machines are killed, stopped, removed and added, a broker is killed, files are deleted and swapped",
    async () => {
      for (const machine of MACHINES) scene.start(machine);
      await scene.allRunning(RUNNING_MS_MAX);
      const random = seeded(SEED);
      const strikes = createStrikes(scene, broker, random);
      const recoveredMs: number[] = [];
      for (let done = 0; done < FAULTS; ) {
        const count = Math.min(FAULTS - done, 1 + Math.floor(random() * BURST_MAX));
        const kinds = Array.from({ length: count }, (_, at) => KINDS[(done + at) % KINDS.length]!);
        const names = await strikes.burst(kinds);
        const tookMs = await scene.allRunning(RUNNING_MS_MAX);
        recoveredMs.push(tookMs);
        done += count;
        if (FAULTS <= 3) continue;
        say(`${done} faults, the last ${names}: all lanes run ${tookMs} ms later`);
        if (recoveredMs.length % 10 === 0) await expectNoneTwice();
      }
      const { lost, twice, served, delivered, others: elsewhere } = await scene.account(RUNNING_MS_MAX);
      say(
        `cluster campaign: ${FAULTS} faults, served ${served}, delivered ${delivered}, lost ${lost}, twice ${twice}, ${JSON.stringify(elsewhere)}`,
      );
      say(`all lanes ran after the last blow of a burst, in ms: ${distribution(recoveredMs)}`);
      expect({ lost, twice }).toEqual({ lost: 0, twice: 0 });
      for (const [sink, counted] of Object.entries(elsewhere))
        expect({ sink, ...counted }).toEqual({ sink, lost: 0, twice: 0 });
      expect(served).toBeGreaterThan(EVENTS / 2);
    },
    1_200_000 + FAULTS * 120_000,
  );

  /** A repeated event is seen early, while the logs still show its cause. */
  async function expectNoneTwice(): Promise<void> {
    const { served, delivered, lost, twice, others: elsewhere } = await scene.accountNow();
    say(
      `so far served ${served}, delivered ${delivered}, on the way ${lost}, twice ${twice}, ${JSON.stringify(elsewhere)}`,
    );
    expect([twice, ...Object.values(elsewhere).map((one) => one.twice)].every((count) => count === 0)).toBe(
      true,
    );
  }

  /** On a busy machine a lane changes hands now and then, so waits are for the moment when all of them run. */
  const WAIT = { timeout: 300_000, interval: 500 };

  test("the page of one machine shows every machine and lane", async () => {
    const shown = async () => {
      const view = (await scene.api("one", "/api/peers")) as {
        readonly kind: string;
        readonly peers: readonly {
          readonly lanes: readonly { readonly lane: number; readonly state: string }[];
        }[];
      };
      const running = view.peers.flatMap(({ lanes }) => lanes.filter(({ state }) => state === "running"));
      return [view.kind, view.peers.length, new Set(running.map(({ lane }) => lane)).size];
    };
    await expect.poll(shown, WAIT).toEqual(["machines", MACHINES.length, LANES]);
    expect(await scene.api("one", "/api/status")).toMatchObject({ version: expect.any(String) });
  });

  test("C3 what is asked on one machine, or by a command, is done in the lanes of all machines", async () => {
    await expect
      .poll(() => scene.api("one", "/api/poll", "POST"), WAIT)
      .toMatchObject({ done: true, message: expect.stringContaining(`In ${LANES} lanes`) });
    await expect
      .poll(() => scene.command("sinks", "retry", "lake"), WAIT)
      .toMatchObject({ code: 0, stdout: expect.stringContaining(`In ${LANES} lanes`) });
    const organizations = scene.simulator.organizations.length;
    // A machine that is too busy to answer in time is named as missing, so this is asked until all answer.
    await expect
      .poll(() => scene.api("two", "/api/status"), WAIT)
      .toMatchObject({ totals: { organizations } });
    await expect
      .poll(async () => JSON.parse((await scene.command("status", "--json")).stdout) as unknown, WAIT)
      .toMatchObject({ status: { totals: { organizations } } });
    await expect
      .poll(() => scene.command("dead-letters", "list"), WAIT)
      .toMatchObject({ stdout: "There are no dead letters.\n" });
  });

  test("C3 an import is started by a command in the lane of its organization, and every machine shows it", async () => {
    const { simulator, command, api } = scene;
    const at = simulator.organizations.slice(0, LANES).map(({ id }) => id);
    const numbers: number[] = [];
    for (const organization of at) {
      const application = simulator.control.world.importApplication(organization);
      const place = ["--account", "acme", "--organization", organization, "--application", application];
      const { stdout, stderr } = await command("imports", "start", ...place, "--json");
      const job = JSON.parse(stdout || `{"error":${JSON.stringify(stderr)}}`) as {
        id: number;
        state: string;
      };
      expect(job).toMatchObject({ state: "running", organization });
      expect(job.id % LANES).toBe(shareOf(organization, LANES));
      numbers.push(job.id);
    }
    expect(new Set(numbers).size).toBe(numbers.length);
    for (const machine of MACHINES) {
      const { jobs } = (await api(machine, "/api/imports")) as { jobs: { id: number }[] };
      expect(jobs.map(({ id }) => id)).toEqual(expect.arrayContaining(numbers));
    }
    const shown = await command("imports", "show", String(numbers[0]), "--json");
    expect(JSON.parse(shown.stdout)).toMatchObject({ id: numbers[0], organization: at[0] });
    expect((await command("imports", "resolve", "999999", "--ended")).stderr).toContain(
      "There is no job 999999",
    );
  });

  test("C13 a machine that cannot read while another can leaves the group, its lanes run elsewhere, and it joins again", async () => {
    await scene.kill("two", "SIGTERM");
    const key = `${scene.simulator.apiKey}-of-two`;
    const two = scene.startWithShortLimits("two", key, { unfitMs: 15_000, stayAwayMs: 5000 });
    const said = (text: string) => two.stderr().split(text).length - 1;
    const until = async (isSo: () => boolean | Promise<boolean>) => {
      for (const deadline = Date.now() + RUNNING_MS_MAX; !(await isSo()); await sleep(200))
        if (Date.now() > deadline) throw new Error(two.stderr().slice(-5000));
    };
    // On a busy machine it may leave before that, because its lanes take long to open.
    await until(() => said("none of its lanes can read from the service") > 0);
    expect(said("A lane runs here.")).toBeGreaterThan(0);
    const ran = said("A lane runs here.");
    await scene.allRunning(RUNNING_MS_MAX);
    // From now on its key is the valid one: it joins again, and stays.
    scene.simulator.control.resetKey(key);
    await until(() => said("A lane runs here.") > ran);
    const machines = async () => (await scene.status()).machines;
    await until(async () =>
      (await machines()).some(
        ({ machine, lanes }) => machine === "two" && lanes.some(({ state }) => state === "running"),
      ),
    );
    scene.simulator.control.resetKey(scene.simulator.apiKey);
  }, 600_000);

  test("a command that needs one state file says what to do instead", async () => {
    const { code, stderr } = await scene.command("tap");
    expect([code, stderr]).toEqual([2, expect.stringContaining("tidemark cluster status")]);
  });
});

function say(line: string): void {
  process.stderr.write(`${new Date().toISOString()} ${line}\n`);
}

function distribution(values: readonly number[]): string {
  const sorted = values.toSorted((one, other) => one - other);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
  return `median ${at(0.5)}, 90% ${at(0.9)}, 99% ${at(0.99)}, most ${sorted.at(-1)}, of ${sorted.length}`;
}
