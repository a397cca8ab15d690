import { expect, describe as suite, test } from "vitest";
import type { Fields } from "../../src/core/meaning.ts";
import { ecs } from "../../src/formats/ecs.ts";
import { describe } from "../../src/services/index.ts";
import { damaged, documentedTypes, seeded, syntheticEvent } from "../services/synthetic.ts";
import { runs } from "../support/runs.ts";
import { ecsValidator } from "./ecs-validator.ts";
import { journalEvent } from "./event.ts";
import { none } from "./leaves.ts";
import { reference, referencePresent } from "./reference.ts";

const BULK_MS = 120_000;
const format = ecs.create({ namespace: "tidemark", original: false }, { describe });

function encode(event: string | object): Fields {
  return JSON.parse(format.encode(journalEvent(event)) as string) as Fields;
}

suite.skipIf(!referencePresent)("against the schema (needs ../shared/data)", () => {
  const faultsOf = referencePresent ? ecsValidator("tidemark") : () => [];

  test(
    "every documented event type gives a valid document, whichever of its fields are there",
    () => {
      const random = seeded(1);
      for (const { service, eventType } of documentedTypes) {
        for (const presence of [1, 0.7, 0.3, 0]) {
          const event = syntheticEvent(service, eventType, random, presence);
          none(faultsOf(encode(event)), event);
        }
      }
    },
    BULK_MS,
  );

  test(
    "events with fields taken away, nulled or retyped give a valid document",
    () => {
      const random = seeded(2);
      for (let round = 0; round < runs(1500); round++) {
        const { service, eventType } = documentedTypes[round % documentedTypes.length]!;
        const event = damaged(syntheticEvent(service, eventType, random), random, 2 + (round % 9));
        none(faultsOf(encode(event as Fields)), event);
      }
    },
    BULK_MS,
  );

  test("the mapping is the proposed one but for its corrections", () => {
    interface Proposal {
      events: Record<string, { ecs: { kind: string; category: string[]; type: string[] } }>;
    }
    const { events } = reference<Proposal>("mapping-table.json");
    const different = Object.entries(events).flatMap(([event_type, { ecs: proposed }]) => {
      const { kind, category, type } = encode({ event_type }).event as typeof proposed;
      const written = `${kind} ${category} ${type}`;
      const wanted = `${proposed.kind} ${proposed.category} ${proposed.type}`;
      return written === wanted ? [] : [`${event_type}: ${written} instead of ${wanted}`];
    });
    expect(different).toMatchInlineSnapshot(`
      [
        "passwordmanager_extension_pair: event configuration change instead of event configuration info",
        "passwordmanager_folder_group_add: event iam group,change instead of event iam group,creation",
        "passwordmanager_folder_group_remove: event iam group,change instead of event iam group,deletion",
        "passwordmanager_folder_member_add: event iam user,change instead of event configuration creation",
        "passwordmanager_folder_member_remove: event iam user,change instead of event configuration deletion",
        "passwordmanager_folder_member_update: event iam user,change instead of event configuration change",
        "passwordmanager_item_autofill: event configuration access instead of event file access",
        "passwordmanager_item_copy: event configuration access instead of event file access",
        "passwordmanager_item_history_reveal: event configuration access instead of event file access",
        "passwordmanager_item_move: event configuration change instead of event configuration info",
        "passwordmanager_item_reveal: event configuration access instead of event file access",
        "passwordmanager_items_export: event configuration access instead of event file access",
        "passwordmanager_items_import: event configuration creation instead of event file creation",
        "passwordmanager_sharedfolders_policy_group_add: event iam group,change instead of event iam group,creation",
        "passwordmanager_sharedfolders_policy_group_remove: event iam group,change instead of event iam group,deletion",
        "passwordmanager_sharedfolders_policy_user_add: event iam user,change instead of event iam user,creation",
        "passwordmanager_sharedfolders_policy_user_remove: event iam user,change instead of event iam user,deletion",
        "passwordmanager_user_device_pair: event iam user,change instead of event iam user,info",
        "passwordmanager_user_device_unpair: event iam user,change instead of event iam user,info",
        "passwordmanager_user_reactivate: event iam user,change instead of event iam user,info",
        "saas_management_account_discover: event configuration info instead of event configuration creation",
        "saas_management_application_discover: event configuration info instead of event configuration creation",
        "saas_management_tenant_discover: event configuration info instead of event configuration creation",
        "user_activation_schedule_create: event iam user,change instead of event iam user,creation",
        "user_activation_schedule_delete: event iam user,change instead of event iam user,deletion",
        "user_admin_granted: event iam user,admin,change instead of event iam user,change",
        "user_admin_revoked: event iam user,admin,change instead of event iam user,change",
        "user_group_admin_grant: event iam group,admin,change instead of event iam group,change",
        "user_group_admin_revoke: event iam group,admin,change instead of event iam group,change",
        "user_suspension_schedule_create: event iam user,change instead of event iam user,creation",
        "user_suspension_schedule_delete: event iam user,change instead of event iam user,deletion",
      ]
    `);
  });
});

test("the original is kept whole under the namespace", () => {
  const random = seeded(3);
  for (let round = 0; round < 500; round++) {
    const { service, eventType } = documentedTypes[round % documentedTypes.length]!;
    const event = syntheticEvent(service, eventType, random, 0.8);
    expect((encode(event).tidemark as Fields).event).toEqual(event);
  }
});

test("by option, another namespace and the original as text", () => {
  const text = '{ "event_type": "user_create", "n": 18446744073709551615 }';
  const other = ecs.create({ namespace: "acme", original: true }, { describe });
  const document = JSON.parse(other.encode(journalEvent(text)) as string) as Fields;
  expect((document.event as Fields).original).toBe(text);
  expect((document.acme as Fields).event).toEqual({ event_type: "user_create", n: "18446744073709551615" });
  expect(ecs.options.safeParse({ namespace: "Not One" }).success).toBe(false);
  expect(ecs.options.safeParse({ namespace: "event" }).success).toBe(false);
});

test("a timestamp that Elasticsearch cannot read is rewritten in a form that it can", () => {
  const written = (timestamp: string) => encode({ event_type: "a", timestamp })["@timestamp"];
  expect(written("2026-11-14T10:00:00.123456789Z")).toBe("2026-11-14T10:00:00.123456789Z");
  expect(written("2026-11-14T10:00:00.5+02:00")).toBe("2026-11-14T08:00:00.500Z");
  expect(written("yesterday")).toBe("2026-11-15T00:00:00.000Z");
});
