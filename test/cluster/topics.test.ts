import { describe, expect, test } from "vitest";
import { watchTopics } from "../../src/app/cluster/watch-topics.ts";
import { createMachineBoard, type MachineBoard } from "../../src/cluster/machines.ts";
import { topicsOf } from "../../src/cluster/topic-names.ts";
import { checkTopics, createTopics } from "../../src/cluster/topics.ts";
import { createAlarms } from "../../src/core/alarms.ts";
import { systemClock } from "../../src/core/clock.ts";
import { silentLog } from "../../src/core/log.ts";
import { useKafka } from "../support/kafka-suite.ts";
import { newCluster } from "./kafka-support.ts";

const suite = await useKafka();
const never = new AbortController().signal;

describe.skipIf(suite.skip)("C7 the topics of a cluster", () => {
  test("C7 settings that would lose data are named, and too few replicas unless it is a trial", async () => {
    const { name, connect } = await newCluster(suite.address, 2);
    const link = await connect(never);
    try {
      expect(await checkTopics(link, name, true, never)).toEqual({
        cluster: expect.any(String),
        ...{ lanes: 2, problems: [] },
      });
      const { problems } = await checkTopics(link, name, false, never);
      expect(problems.join("\n")).toContain(`${topicsOf(name).state} has 1 replicas instead of 3`);
      await suite.admin.alterConfigs({
        validateOnly: false,
        resources: [
          {
            type: 2,
            name: topicsOf(name).state,
            configEntries: [{ name: "cleanup.policy", value: "delete" }],
          },
        ],
      });
      await expect
        .poll(async () => (await checkTopics(link, name, true, never)).problems.join("\n"))
        .toContain("cleanup.policy=delete instead of compact");
    } finally {
      link.end();
    }
  });

  test("C7 a cluster is not made twice, and one whose topic was lost is not begun anew", async () => {
    const { name, connect } = await newCluster(suite.address, 2);
    const link = await connect(never);
    try {
      const again = createTopics(link, { name, lanes: 2, replication: 1, trial: true });
      await expect(again).rejects.toThrow("exist already");
      await suite.admin.deleteTopics({ topics: [topicsOf(name).pages] });
      await expect
        .poll(() => checkTopics(link, name, true, never).catch((error: Error) => error.message))
        .toContain(`lacks the topic ${topicsOf(name).pages}`);
    } finally {
      link.end();
    }
  });

  test("C7 partitions that were added later are not used: the birth record says how many lanes there are", async () => {
    const { name, connect } = await newCluster(suite.address, 2);
    const link = await connect(never);
    try {
      const topicPartitions = Object.values(topicsOf(name)).map((topic) => ({ topic, count: 4 }));
      await suite.admin.createPartitions({ topicPartitions });
      const { lanes, problems } = await checkTopics(link, name, true, never);
      expect({ lanes, problems }).toEqual({ lanes: 2, problems: [] });
    } finally {
      link.end();
    }
  });

  test("C7 a setting that is changed and a topic that is deleted while a machine runs raise an alarm", async () => {
    const { name, connect } = await newCluster(suite.address, 1);
    const link = await connect(never);
    const { cluster: id } = await checkTopics(link, name, true, never).finally(() => link.end());
    const alarms = createAlarms(systemClock, silentLog);
    const stop = new AbortController();
    const watch = watchTopics({ cluster: { name, trial: true }, connect, alarms, id }, stop.signal, 100);
    const said = () =>
      alarms
        .list()
        .map(({ kind, message }) => `${kind}: ${message}`)
        .join();
    const resources = (value: string) => [
      { type: 2, name: topicsOf(name).pages, configEntries: [{ name: "retention.ms", value }] },
    ];
    const soon = { timeout: 400_000 };
    try {
      await suite.admin.alterConfigs({ validateOnly: false, resources: resources("1000") });
      await expect.poll(said, soon).toContain("retention.ms=1000 instead of -1");
      await suite.admin.alterConfigs({ validateOnly: false, resources: resources("-1") });
      await expect.poll(said, soon).toBe("");
      await suite.admin.deleteTopics({ topics: [topicsOf(name).state] });
      await expect.poll(said, soon).toContain(`lacks the topic ${topicsOf(name).state}`);
    } finally {
      stop.abort();
      await watch;
    }
  });

  test("C7 topics that were made again while a machine ran raise an alarm", async () => {
    const { name, connect } = await newCluster(suite.address, 1);
    const alarms = createAlarms(systemClock, silentLog);
    const stop = new AbortController();
    const parts = { cluster: { name, trial: true }, connect, alarms, id: "the cluster before" };
    const watch = watchTopics(parts, stop.signal, 100);
    try {
      const said = () => alarms.list().map(({ kind, message }) => `${kind}: ${message}`);
      await expect.poll(() => said().join()).toContain("cluster_topics: ");
      expect(said().join()).toContain(`${name}.state was made again while this machine ran`);
      expect(said().join()).toContain("it was the cluster the cluster before, and now it is the cluster ");
    } finally {
      stop.abort();
      await watch;
    }
  });

  test("fewer than three replicas are refused unless it is a trial", async () => {
    const { connect } = await newCluster(suite.address, 1);
    const link = await connect(never);
    const made = createTopics(link, { name: "none", lanes: 1, replication: 1, trial: false });
    await expect(made).rejects.toThrow("one lost disk loses the state");
    link.end();
  });

  test("two processes with the name of one machine notice each other, and a process that was started again does not", async () => {
    const { name, connect } = await newCluster(suite.address, 1);
    const boards = [1, 2, 3].map(() => createMachineBoard(name, connect));
    const [earlier, one, other] = boards as [MachineBoard, MachineBoard, MachineBoard];
    const report = async (board: MachineBoard) => {
      const summary = { machine: "m", version: "1", atMs: Date.now(), alarms: [], lanes: [] };
      await board.publish("m", summary, never);
      await board.refresh(never);
    };
    try {
      await report(earlier);
      for (let times = 0; times < 2; times++) await report(one);
      expect(one.hasRival()).toBe(false);
      for (const board of [other, one, other]) await report(board);
      expect([one.hasRival(), other.hasRival()]).toEqual([true, true]);
    } finally {
      for (const board of boards) await board.end();
    }
  });

  test("C9 a machine whose clock is an hour off is seen by the others, and one that is gone is not", async () => {
    const { name, connect } = await newCluster(suite.address, 1);
    const boards = [createMachineBoard(name, connect), createMachineBoard(name, connect)] as const;
    const [here, there] = boards;
    const hourMs = 3_600_000;
    const summary = (machine: string, atMs: number) => ({
      ...{ machine, version: "1", atMs, alarms: [] },
      lanes: [{ lane: 0, state: "running", sinceMs: atMs - 1000, records: 0, behindEvents: 0 } as const],
    });
    try {
      await here.publish("here", summary("here", Date.now()), never);
      await there.publish("there", summary("there", Date.now() - hourMs), never);
      for (const board of boards) await board.refresh(never);
      const seen = here.list(Date.now());
      expect(seen.map(({ machine }) => machine)).toEqual(["here", "there"]);
      expect(Math.abs(Date.now() - seen[1]!.lanes[0]!.sinceMs)).toBeLessThan(hourMs / 2);
      expect(here.list(Date.now() + 60_000)).toEqual([]);
    } finally {
      for (const board of boards) await board.end();
    }
  });
});
