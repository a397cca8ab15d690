import { describe, expect, test } from "vitest";
import { joinGroup } from "../../src/cluster/membership.ts";
import { refusedRight } from "../../src/cluster/rights.ts";
import { checkTopics } from "../../src/cluster/topics.ts";
import { removeAcls, setAcls } from "../support/kafka-acls.ts";
import { useKafka } from "../support/kafka-suite.ts";
import { newCluster } from "./kafka-support.ts";

const suite = await useKafka();
const never = new AbortController().signal;
const DENY = 2;
const ALLOW = 3;
const LITERAL = 3;
/** Types of resources and operations, as the protocol numbers them. */
const TOPIC = 2;
const GROUP = 3;
const TRANSACTIONAL_ID = 5;
const ALL = 2;
const READ = 3;
const WRITE = 4;
const DESCRIBE = 8;
const DESCRIBE_CONFIGS = 10;

describe.skipIf(suite.skip)("a user with too few rights", () => {
  async function denied(
    resourceType: number,
    resourceName: string,
    operation: number,
    work: () => Promise<void>,
  ) {
    const acl = {
      ...{ resourceType, resourceName, resourcePatternType: LITERAL },
      ...{ principal: "User:ANONYMOUS", host: "*", operation, permissionType: DENY },
    };
    // A denial takes precedence; without the other one the resource would have no other right either.
    const acls = [acl, { ...acl, operation: ALL, permissionType: ALLOW }];
    await setAcls(suite.admin, acls);
    try {
      await work();
    } finally {
      await removeAcls(suite.admin, [acl]);
    }
  }

  test("C7 learns which right it lacks: transactional ids, topics, their settings, the group", async () => {
    const { name, connect, changelog } = await newCluster(suite.address, 1);
    const check = async () => {
      const link = await connect(never);
      await checkTopics(link, name, true, never).finally(() => link.end());
    };
    await check();
    await denied(TRANSACTIONAL_ID, `${name}.lane.0`, WRITE, async () => {
      await expect(changelog.open(0, never)).rejects.toThrow(`transactional ids with the prefix "${name}."`);
    });
    await denied(TOPIC, `${name}.state`, WRITE, async () => {
      const commit = async () => {
        const log = await changelog.open(0, never);
        await log.commit({ rows: [{ key: "k", value: Buffer.from("v") }], bodies: [] }).finally(log.close);
      };
      await expect(commit()).rejects.toThrow(`topics with the prefix "${name}."`);
    });
    await denied(TOPIC, `${name}.state`, DESCRIBE_CONFIGS, async () => {
      await expect(check()).rejects.toThrow("DescribeConfigs");
    });
    await denied(TOPIC, `${name}.state`, DESCRIBE, async () => {
      await expect(check()).rejects.toThrow(`allow it Describe on topics with the prefix "${name}."`);
    });
    await denied(GROUP, name, READ, async () => {
      const stop = new AbortController();
      const said = new Promise<string>((resolve) => {
        void joinGroup(
          {
            ...{ name, lanes: 1, sessionTimeoutMs: 10_000, connect },
            facts: () => ({ machine: "one", schema: 1, laneSchema: 0, config: "", held: [] }),
            assigned: () => {},
            alive: () => {},
            trouble: (error) => resolve(refusedRight(error, name)?.message ?? String(error)),
          },
          stop.signal,
        );
      });
      expect(await said).toContain(`allow it Read on the group "${name}"`);
      stop.abort();
    });
  });
});
