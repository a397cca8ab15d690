import { afterAll, beforeAll, expect, test } from "vitest";
import { type Simulator, startSimulator } from "../../simulator/index.ts";
import type { Fields } from "../../src/core/meaning.ts";
import { ecs } from "../../src/formats/ecs.ts";
import { ocsf } from "../../src/formats/ocsf.ts";
import { describe } from "../../src/services/index.ts";
import { ecsValidator } from "./ecs-validator.ts";
import { journalEvent } from "./event.ts";
import { none } from "./leaves.ts";
import { ocsfValidator } from "./ocsf-validator.ts";
import { referencePresent } from "./reference.ts";

const EVENTS = 100_000;
const BULK_MS = 600_000;
let simulator: Simulator;

beforeAll(async () => {
  simulator = await startSimulator({
    events: EVENTS,
    organizations: 20,
    seed: 7,
    clock: { start: "2026-11-14T00:00:00Z", speed: 0 },
  });
}, BULK_MS);

afterAll(() => simulator?.close());

test.skipIf(!referencePresent)(
  "100,000 events of the simulator give valid OCSF and ECS (needs ../shared/data)",
  () => {
    const ocsfFormat = ocsf.create({ schemaVersion: "1.8.0", rawData: false }, { describe });
    const ecsFormat = ecs.create({ namespace: "tidemark", original: false }, { describe });
    const ocsfFaults = ocsfValidator();
    const ecsFaults = ecsValidator("tidemark");
    let count = 0;
    for (const bytes of simulator.control.allEvents({ pending: true })) {
      const event = journalEvent(Buffer.from(bytes).toString());
      none(ocsfFaults(JSON.parse(ocsfFormat.encode(event) as string)), event);
      none(ecsFaults(JSON.parse(ecsFormat.encode(event) as string) as Fields), event);
      count++;
    }
    expect(count).toBeGreaterThanOrEqual(EVENTS);
  },
  BULK_MS,
);
