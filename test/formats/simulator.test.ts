// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Simulator, startSimulator } from "../../simulator/index.ts";
import type { JournalEvent } from "../../src/core/event.ts";
import type { Fields } from "../../src/core/meaning.ts";
import { cef } from "../../src/formats/cef.ts";
import { ecs } from "../../src/formats/ecs.ts";
import { leef } from "../../src/formats/leef.ts";
import { ocsf } from "../../src/formats/ocsf.ts";
import { describe } from "../../src/services/index.ts";
import { readCef } from "./cef-reader.ts";
import { ecsValidator } from "./ecs-validator.ts";
import { journalEvent } from "./event.ts";
import { none } from "./leaves.ts";
import { readLeef } from "./leef-reader.ts";
import { ocsfValidator } from "./ocsf-validator.ts";
import { reference, referencePresent } from "./reference.ts";

/** TIDEMARK_FORMAT_EVENTS=100000 is the long run. */
const EVENTS = Number(process.env.TIDEMARK_FORMAT_EVENTS ?? 4000);
const BULK_MS = 900_000;
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
  "events of the simulator are valid in every format, and show the shapes of the field (needs ../shared/data)",
  () => {
    const validators = [ocsfFaults(), ecsFaults(), cefFaults(), leefFaults()];
    const effects = new Set<string>();
    let managed = 0;
    let count = 0;
    for (const bytes of simulator.control.allEvents({ pending: true })) {
      const event = journalEvent(Buffer.from(bytes).toString());
      for (const faultsOf of validators) none(faultsOf(event), event);
      const { meaning } = describe(event);
      for (const effect of meaning.effects) effects.add(effect);
      if (meaning.device?.managed) managed++;
      count++;
    }
    expect(count).toBeGreaterThanOrEqual(EVENTS);
    expect([...effects]).toEqual(
      expect.arrayContaining(["member_add", "member_remove", "access_grant", "group_access_grant"]),
    );
    expect(effects.size).toBeGreaterThan(12);
    expect(managed).toBeGreaterThan(0);
  },
  BULK_MS,
);

type Faults = (event: JournalEvent) => string[];

function ocsfFaults(): Faults {
  const format = ocsf.create({ schemaVersion: "1.8.0", rawData: false }, { describe });
  const faultsOf = ocsfValidator();
  return (event) => faultsOf(JSON.parse(format.encode(event) as string));
}

function ecsFaults(): Faults {
  const format = ecs.create({ namespace: "tidemark", original: false }, { describe });
  const faultsOf = ecsValidator("tidemark");
  return (event) => faultsOf(JSON.parse(format.encode(event) as string) as Fields);
}

function cefFaults(): Faults {
  const format = cef.create({}, { describe });
  const { extensions } = reference<{ extensions: Record<string, { length?: number }> }>(
    "cef-extensions.json",
  );
  return (event) => {
    const { extension } = readCef(format.encode(event) as string);
    return [...extension].flatMap(([key, value]) => {
      const known = extensions[key] ?? (/^c6a2(Label)?$/.test(key) ? {} : undefined);
      if (known === undefined) return [`CEF does not know ${key}`];
      return [...value].length > (known.length ?? 1023) ? [`${key} is too long`] : [];
    });
  };
}

function leefFaults(): Faults {
  const format = leef.create({}, { describe });
  const { attributes: known } = reference<{ attributes: Record<string, { type: string; limits?: string }> }>(
    "leef-attributes.json",
  );
  return (event) => {
    const { attributes } = readLeef(format.encode(event) as string);
    const faults = [...attributes].flatMap(([key, value]) => {
      const limit = Number(known[key]?.limits);
      return known[key]?.type === "string" && value.length > limit ? [`${key} is too long`] : [];
    });
    if (attributes.has("identHostName") && !attributes.has("identSrc")) faults.push("identHostName alone");
    return faults;
  };
}
