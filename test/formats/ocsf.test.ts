// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { expect, describe as suite, test } from "vitest";
import type { Fields } from "../../src/core/meaning.ts";
import { ocsf } from "../../src/formats/ocsf.ts";
import { describe } from "../../src/services/index.ts";
import { damaged, documentedTypes, seeded, syntheticEvent } from "../services/synthetic.ts";
import { runs } from "../support/runs.ts";
import { journalEvent } from "./event.ts";
import { leafAt, leavesOf, none, withUniqueLeaves } from "./leaves.ts";
import { ocsfValidator } from "./ocsf-validator.ts";
import { reference, referencePresent } from "./reference.ts";

const BULK_MS = 120_000;
const format = ocsf.create({ schemaVersion: "1.8.0", rawData: false }, { describe });

function encode(event: string | object): Fields {
  return JSON.parse(format.encode(journalEvent(event)) as string) as Fields;
}

suite.skipIf(!referencePresent)("against the schema (needs ../shared/data)", () => {
  const faultsOf = referencePresent ? ocsfValidator() : () => [];

  test(
    "every documented event type gives a valid event, whichever of its fields are there",
    () => {
      const random = seeded(1);
      for (const { service, eventType } of documentedTypes) {
        for (const presence of [1, 1, 0.7, 0.4, 0.1, 0]) {
          const event = syntheticEvent(service, eventType, random, presence);
          none(faultsOf(encode(event)), event);
        }
      }
    },
    BULK_MS,
  );

  test("every catalogued event type is documented by a service", () => {
    const catalogue = reference<{ event_types: Record<string, Record<string, string>> }>("event-types.json");
    const types = new Set(documentedTypes.map(({ eventType }) => eventType));
    const missing = Object.values(catalogue.event_types)
      .flatMap((group) => Object.keys(group))
      .filter((type) => !types.has(type));
    expect(missing).toEqual([]);
  });

  test(
    "events with fields taken away, nulled or retyped give a valid event",
    () => {
      const random = seeded(2);
      for (let round = 0; round < runs(2500); round++) {
        const { service, eventType } = documentedTypes[round % documentedTypes.length]!;
        const event = damaged(syntheticEvent(service, eventType, random), random, 2 + (round % 9)) as Fields;
        none(faultsOf(encode(event)), event);
      }
    },
    BULK_MS,
  );

  test("the mapping is the proposed one but for its corrections", () => {
    interface Proposal {
      events: Record<string, { services: string[]; ocsf: { class_uid: number; activity_id: number } }>;
    }
    const { events } = reference<Proposal>("mapping-table.json");
    const random = seeded(3);
    const different = Object.entries(events).flatMap(([eventType, { services, ocsf: proposed }]) => {
      const event = syntheticEvent(services[0]!, eventType, random);
      const resource = fillable(eventType);
      const out = encode({ ...event, ...resource });
      return out.class_uid === proposed.class_uid && out.activity_id === proposed.activity_id
        ? []
        : [
            `${eventType}: ${out.class_uid}/${out.activity_id} instead of ${proposed.class_uid}/${proposed.activity_id}`,
          ];
    });
    expect(different).toMatchInlineSnapshot(`
      [
        "passwordmanager_extension_pair: 3004/6 instead of 3004/99",
        "passwordmanager_folder_group_add: 3004/3 instead of 3004/1",
        "passwordmanager_folder_group_remove: 3004/3 instead of 3004/4",
        "passwordmanager_folder_member_add: 3004/3 instead of 3004/1",
        "passwordmanager_folder_member_remove: 3004/3 instead of 3004/4",
        "passwordmanager_item_move: 3004/5 instead of 3004/99",
        "passwordmanager_sharedfolders_policy_group_add: 3004/3 instead of 3004/1",
        "passwordmanager_sharedfolders_policy_group_remove: 3004/3 instead of 3004/4",
        "passwordmanager_sharedfolders_policy_user_add: 3004/3 instead of 3004/1",
        "passwordmanager_sharedfolders_policy_user_remove: 3004/3 instead of 3004/4",
        "passwordmanager_user_device_pair: 3004/6 instead of 3004/99",
        "passwordmanager_user_device_unpair: 3004/7 instead of 3004/99",
        "passwordmanager_user_reactivate: 3004/10 instead of 3004/99",
        "remote_session_end: 3004/99 instead of 6002/4",
        "remote_session_feedback: 3004/99 instead of 6002/99",
        "remote_session_join: 3004/99 instead of 6002/99",
        "remote_session_start: 3004/99 instead of 6002/3",
        "saas_management_account_discover: 3004/99 instead of 3004/1",
        "saas_management_application_discover: 3004/99 instead of 3004/1",
        "saas_management_tenant_discover: 3004/99 instead of 3004/1",
        "user_activation_schedule_create: 3001/99 instead of 3004/1",
        "user_activation_schedule_delete: 3001/99 instead of 3004/4",
        "user_suspension_schedule_create: 3001/99 instead of 3004/1",
        "user_suspension_schedule_delete: 3001/99 instead of 3004/4",
      ]
    `);
  });
});

/** The fields that the classes require, as events name them. */
function fillable(eventType: string): Fields {
  const type = /^(user_)?group/.test(eventType)
    ? "user_group"
    : /user|admin|totp/.test(eventType)
      ? "user"
      : "thing";
  return {
    resource: { id: "r1", name: "thing", type },
    initiated_by: { id: "a1", type: "admin", email: "a@example.com" },
    username: "jo",
    application: { id: "app", name: "app" },
    system: { id: "s1", hostname: "host" },
  };
}

test(
  "nothing of an event is lost: each leaf is in the mapped or the unmapped part",
  () => {
    const random = seeded(4);
    for (let round = 0; round < runs(1500); round++) {
      const { service, eventType } = documentedTypes[round % documentedTypes.length]!;
      const whole = syntheticEvent(service, eventType, random, 0.9);
      const event = withUniqueLeaves(round % 2 === 0 ? whole : damaged(whole, random, 8)) as Fields;
      none(lost(event, encode(event)), event);
    }
  },
  BULK_MS,
);

/** The leaves that are neither where they were, under `unmapped`, nor anywhere in the mapped part. */
function lost(event: Fields, { unmapped, ...mapped }: Fields): string[] {
  const found = new Set(leavesOf(mapped).map(({ value }) => String(value).toLowerCase()));
  return leavesOf(event)
    .filter(({ path, value }) => {
      if (leafAt(unmapped, path) !== undefined) return false;
      if (typeof value === "boolean" || path[0] === "success") return !isWritten(path, value, mapped);
      return !found.has(String(value).toLowerCase());
    })
    .map(({ path, value }) => `${path.join(".")}: ${value}`);
}

/** Booleans appear as the status, or as is_mfa. */
function isWritten([key]: readonly string[], value: unknown, { status_id, is_mfa }: Fields): boolean {
  if (key === "mfa") return is_mfa === value;
  if (key !== "success" && key !== "sso_token_success") return false;
  return status_id === (String(value).toLowerCase() === "true" ? 1 : 2);
}
