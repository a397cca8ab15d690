import { expect, test } from "vitest";
import type { DriftRow } from "../../src/core/drift.ts";
import { lostClass } from "../../src/formats/ocsf.ts";
import { createDrift } from "../../src/services/count-drift.ts";
import { services } from "../../src/services/index.ts";
import { fixturesOf } from "../contract/service.ts";
import { FETCHED_AT_MS, journalEvent } from "../formats/event.ts";
import { damaged, documentedTypes, seeded, syntheticEvent } from "./synthetic.ts";

const LOGIN = {
  id: "a",
  event_type: "user_login_attempt",
  timestamp: "2026-11-14T10:00:00Z",
  service: "directory",
  organization: "o",
};

function observed(...events: object[]): readonly DriftRow[] {
  const drift = createDrift();
  for (const event of events) drift.observe(journalEvent(event));
  return drift.rows();
}

function brief(rows: readonly DriftRow[]): string[] {
  return rows.map((row) =>
    `${row.service} ${row.kind} ${row.path} ${row.detail} ×${row.count}`.replace("  ", " "),
  );
}

test("documented events are no drift, in any of the shapes that the field has shown", () => {
  expect(
    observed(
      LOGIN,
      { ...LOGIN, "@version": "1", organization: null, provider: "" },
      { ...LOGIN, "@version": 1, geoip: { geoip: { latitude: "1.5", country_code: "US" } } },
      { ...LOGIN, changes: [{ field: "a", from: 1, to: ["x"] }, { field: "b" }], geoip: { latitude: 1.5 } },
      { ...LOGIN, service: "alerts", event_type: "alert_created" },
      { ...LOGIN, service: "password_manager", event_type: "passwordmanager_enable", user_agent: "text" },
    ),
  ).toEqual([]);
});

test("the fixtures drift only where they are meant to", () => {
  const texts = services.flatMap((service) => fixturesOf(service.name).map(({ text }) => text));
  const drift = createDrift();
  for (const text of texts) drift.observe(journalEvent(text));
  expect(brief(drift.rows()).sort()).toMatchInlineSnapshot(`
    [
      "access_management field auth_method ×1",
      "aigw event_type aigw_prompt_blocked ×1",
      "alert field resource.name ×1",
      "alert field resource.type ×1",
      "directory field huge ×1",
      "directory field note ×1",
      "directory field ratio ×1",
      "directory type event_type string, not nothing ×1",
      "mdm field certificates ×1",
      "radius field nas_id ×1",
      "software field status ×1",
      "sso event_type sso_auth_denied ×1",
      "workflows event_type workflow_console_login ×1",
    ]
  `);
});

test("an unknown event type, an unknown field and a type mismatch are counted per service", () => {
  const rows = observed(
    { ...LOGIN, event_type: "user_teleported" },
    { ...LOGIN, event_type: "user_teleported", mood: "fine", resource: { id: "r", aura: { colour: "red" } } },
    { ...LOGIN, mfa: "yes", changes: [{ field: 7 }, { field: 8, why: "x" }], success: null },
  );
  expect(brief(rows).sort()).toEqual([
    "directory event_type user_teleported ×2",
    "directory field changes[].why ×1",
    "directory field mood ×1",
    "directory field resource.aura ×1",
    "directory type changes[].field string, not number ×1",
    "directory type mfa boolean, not string ×1",
    "directory type success boolean, not null ×1",
  ]);
});

test("a new field of an event that lost its class is named with both classes", () => {
  const drift = createDrift(undefined, lostClass);
  const lost = { ...LOGIN, user_info: { login: "jo" }, resource: { id: "r", mood: 1 } };
  drift.observe(journalEvent({ ...lost, resource: undefined }));
  drift.observe(journalEvent({ ...lost, initiated_by: { id: "u", type: "user" } }));
  drift.observe(journalEvent(LOGIN));
  expect(brief(drift.rows()).sort()).toEqual([
    "directory class user_info user_login_attempt: Authentication became Base Event ×1",
    "directory field resource.mood ×1",
    "directory field user_info ×2",
  ]);
});

test("a row without event_type is counted, and an event of an unknown service under its own name", () => {
  const { event_type: _, ...untyped } = LOGIN;
  expect(brief(observed(untyped, { ...LOGIN, service: "aigw", event_type: "aigw_new", more: 1 }))).toEqual([
    "directory type event_type string, not nothing ×1",
    "aigw event_type aigw_new ×1",
  ]);
});

test("first seen, last seen and how often are kept", () => {
  const drift = createDrift();
  for (const fetchedAtMs of [2000, 1000, 3000])
    drift.observe(journalEvent({ ...LOGIN, mood: "fine" }, { fetchedAtMs }));
  expect(drift.rows()).toEqual([
    {
      service: "directory",
      kind: "field",
      path: "mood",
      detail: "",
      firstSeenMs: 1000,
      lastSeenMs: 3000,
      count: 3,
    },
  ]);
});

test("names that look like data are never shown, and values never at all", () => {
  const rows = observed({
    ...LOGIN,
    "jo@example.com": 1,
    "5c8fcfe0e7eb500001c71062": 1,
    "Jo Doe": 1,
    event_type: "login of jo@example.com",
    auth_context: { auth_methods: { "jo@example.com": "secret" } },
    secret_value: "hunter2",
  });
  const shown = JSON.stringify(rows);
  expect(shown).not.toMatch(/example|5c8f|Doe|hunter2/);
  expect(brief(rows).sort()).toEqual([
    "directory event_type * ×1",
    "directory field * ×1",
    "directory field secret_value ×1",
    "directory type auth_context.auth_methods.* object, not string ×1",
  ]);
});

test("memory is bounded, and what finds no row of its own is counted all the same", () => {
  const drift = createDrift(10);
  for (let number = 0; number < 100; number++)
    drift.observe(journalEvent({ ...LOGIN, [`field_${"abcdefghij"[number % 10]}${number}`]: 1 }));
  const rows = drift.rows();
  expect(rows.length).toBe(11);
  expect(rows.reduce((sum, row) => sum + row.count, 0)).toBe(100);
  expect(rows[0]).toMatchObject({ service: "(others)", kind: "field", path: "*", count: 90 });
});

test("flush gives the rows that changed, and counting goes on from rows that were loaded", () => {
  const first = createDrift();
  first.observe(journalEvent({ ...LOGIN, mood: 1, tone: 1 }));
  expect(first.flush().length).toBe(2);
  expect(first.flush()).toEqual([]);
  first.observe(journalEvent({ ...LOGIN, mood: 1 }));
  expect(brief(first.flush())).toEqual(["directory field mood ×2"]);

  const second = createDrift();
  second.load(first.rows());
  expect(second.flush()).toEqual([]);
  second.observe(journalEvent({ ...LOGIN, mood: 1 }, { fetchedAtMs: FETCHED_AT_MS + 5 }));
  expect(second.flush()).toMatchObject([
    { path: "mood", count: 3, firstSeenMs: FETCHED_AT_MS, lastSeenMs: FETCHED_AT_MS + 5 },
  ]);
});

test("no event makes it throw", () => {
  const drift = createDrift();
  const event = journalEvent({ ...LOGIN, mood: 1 });
  drift.observe({ ...event, bytes: Buffer.from("not json") });
  expect(brief(drift.rows())).toContain("directory type object, not text ×1");
  const random = seeded(5);
  for (let round = 0; round < 2000; round++) {
    const { service, eventType } = documentedTypes[round % documentedTypes.length]!;
    drift.observe(journalEvent(damaged(syntheticEvent(service, eventType, random), random, 4) as object));
  }
  expect(drift.rows().length).toBeLessThanOrEqual(2003);
});
