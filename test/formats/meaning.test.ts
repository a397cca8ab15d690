import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { Fields } from "../../src/core/meaning.ts";
import { cef } from "../../src/formats/cef.ts";
import { ecs } from "../../src/formats/ecs.ts";
import { leef } from "../../src/formats/leef.ts";
import { ocsf } from "../../src/formats/ocsf.ts";
import { describe } from "../../src/services/index.ts";
import { FIXTURES } from "../contract/service.ts";
import { documentedTypes, seeded, syntheticEvent } from "../services/synthetic.ts";
import { journalEvent } from "./event.ts";
import { leafAt } from "./leaves.ts";

const ocsfFormat = ocsf.create({ schemaVersion: "1.8.0", rawData: false }, { describe });
const ecsFormat = ecs.create({ namespace: "tidemark", original: false }, { describe });
const cefFormat = cef.create({}, { describe });
const leefFormat = leef.create({}, { describe });

const asOcsf = (event: object): Fields =>
  JSON.parse(ocsfFormat.encode(journalEvent(event)) as string) as Fields;
const asEcs = (event: object): Fields =>
  JSON.parse(ecsFormat.encode(journalEvent(event)) as string) as Fields;
const asCef = (event: object): string => cefFormat.encode(journalEvent(event)) as string;
const asLeef = (event: object): string => leefFormat.encode(journalEvent(event)) as string;

function fixture(name: string): Fields {
  return JSON.parse(readFileSync(new URL(`${name}.in.json`, FIXTURES), "utf8")) as Fields;
}

const at = (value: unknown, path: string) => leafAt(value, path.split("."));

test("members of groups are added and removed in OCSF Group Management", () => {
  const added = asOcsf(fixture("directory/011-member-added"));
  expect([added.type_uid, at(added, "group.name"), at(added, "user.name")]).toEqual([
    300603,
    "Prod Admins",
    "jo.doe",
  ]);
  const removed = asOcsf(fixture("directory/012-member-removed-without-names"));
  expect([removed.type_uid, at(removed, "user.type")]).toEqual([300604, "User"]);
});

test("access to devices and applications is granted and revoked in OCSF User Access and Group Management", () => {
  const sudo = asOcsf(fixture("directory/013-bound-to-a-device-with-sudo"));
  expect([sudo.type_uid, sudo.privileges]).toEqual([300501, ["login", "sudo", "sudo_without_password"]]);
  expect(at(sudo, "resources.0.name")).toBe("srv1");
  const group = asOcsf(fixture("directory/014-group-bound-to-an-application"));
  expect([group.type_uid, at(group, "resource.name")]).toEqual([300601, "Payroll"]);
});

test("other links are entities with both ends, and no association is about the organization", () => {
  const unbound = asOcsf(fixture("directory/015-policy-unbound"));
  expect([unbound.activity_name, at(unbound, "entity.name"), at(unbound, "entity_result.name")]).toEqual([
    "Unlink",
    "FileVault",
    "Laptops",
  ]);
  for (const association of [undefined, {}, { op: "add" }, { op: "add", connection: {} }]) {
    const out = asOcsf({
      service: "directory",
      event_type: "association_change",
      organization: "5f0c8a1b2c3d4e5f60718293",
      association,
    });
    expect(JSON.stringify(out.entity ?? {})).not.toContain("5f0c8a1b2c3d4e5f60718293");
    expect(out.class_uid).toBe(0);
  }
});

test("an update has the activity of its gravest effect", () => {
  const activity = (name: string) => {
    const out = asOcsf(fixture(name));
    return [out.class_uid, out.activity_id, out.activity_name];
  };
  expect(activity("directory/016-second-factor-removed")).toEqual([3001, 11, "MFA Factor Disable"]);
  expect(activity("directory/017-excluded-from-mfa")).toEqual([3001, 99, "MFA Exclude"]);
  expect(activity("directory/018-role-raised")).toEqual([3005, 1, "Assign Privileges"]);
  expect(activity("directory/019-suspended-by-an-update")).toEqual([3001, 5, "Disable"]);
  expect(activity("directory/021-policy-disabled")).toEqual([3004, 9, "Disable"]);
  expect(activity("directory/001-user-update")).toEqual([3001, 99, "Update"]);
});

test("CEF and LEEF show old and new values of short scalars, and of secrets only the name", () => {
  const event = {
    service: "directory",
    event_type: "user_update",
    resource: { type: "user", id: "u", username: "jo" },
    changes: [
      { field: "suspended", from: false, to: true },
      { field: "title", to: "Boss" },
      { field: "addresses", from: [], to: [{ street: "x" }] },
      { field: "recovery_key", from: "hunter1", to: "hunter2" },
      { field: "note", from: "x".repeat(65), to: "y" },
    ],
  };
  const text = "suspended: false -> true, title:  -> Boss, addresses, recovery_key, note";
  expect(asCef(event)).toContain(`cs5=${text} cs5Label=changes`);
  expect(asLeef(event)).toContain(`\tchanges=${text}\t`);
});

test("geography belongs to the address it describes", () => {
  const login = fixture("systems/005-login-on-a-device-abroad");
  const inOcsf = asOcsf(login);
  expect(at(inOcsf, "src_endpoint.ip")).toBe("10.0.2.2");
  expect(at(inOcsf, "src_endpoint.location")).toBeUndefined();
  expect([at(inOcsf, "device.ip"), at(inOcsf, "device.location.country")]).toEqual(["81.2.69.144", "GB"]);
  const inEcs = asEcs(login);
  expect(at(inEcs, "source.geo")).toBeUndefined();
  expect(at(inEcs, "host.geo.country_iso_code")).toBe("GB");
});

test("CEF and LEEF have an address wherever the event has one", () => {
  const { src_ip: _, ...without } = fixture("systems/005-login-on-a-device-abroad");
  expect(asCef(without)).toContain(" dst=81.2.69.144 ");
  expect(asLeef(without)).toContain("\tidentSrc=81.2.69.144\tidentHostName=srv1\t");
  expect(asCef({ ...without, client_ip: "2001:db8::1" })).toContain(
    "c6a3=2001:db8::1 c6a3Label=Destination IPv6",
  );
  const random = seeded(9);
  for (const { service, eventType } of documentedTypes) {
    const event = { ...syntheticEvent(service, eventType, random), client_ip: "192.0.2.99" };
    expect(asCef(event)).toContain("192.0.2.99");
    expect(asLeef(event)).toContain("192.0.2.99");
  }
});

test("duser and accountName are users, never devices, policies, commands or groups", () => {
  const target = (name: string) => [asCef(fixture(name)), asLeef(fixture(name))] as const;
  for (const [name, word] of [
    ["directory/015-policy-unbound", "FileVault"],
    ["directory/021-policy-disabled", "Require MFA"],
    ["directory/023-device-removed", "srv1"],
    ["directory/024-command-run", "rm -rf"],
    ["directory/011-member-added", "Prod Admins"],
  ] as const) {
    const [inCef, inLeef] = target(name);
    expect(inCef).not.toContain(`duser=${word}`);
    expect(inLeef).not.toContain(`accountName=${word}`);
    expect(inCef).toContain(word);
    expect(inLeef).toContain(word);
  }
  expect(asCef(fixture("directory/023-device-removed"))).toContain(
    "dhost=srv1 deviceExternalId=5c86b7149fdce00001d38aaa",
  );
  expect(asCef(fixture("directory/024-command-run"))).toContain("reportedResourceName=rm -rf ");
  expect(asCef(fixture("directory/015-policy-unbound"))).toContain("reportedResourceGroupName=Laptops");
  expect(asCef(fixture("directory/011-member-added"))).toContain(
    "duser=jo.doe duid=5d2f1f4d45886d6b8d1a0c02",
  );
  expect(asLeef(fixture("directory/011-member-added"))).toContain("\taccountName=jo.doe\t");
});

test("LEEF has identHostName only with identSrc, and an event id of at most 255 characters", () => {
  expect(asLeef(fixture("sso/005-from-a-managed-device"))).not.toContain("identHostName");
  expect(asLeef(fixture("sso/005-from-a-managed-device"))).toContain("\tdeviceName=mac-17\t");
  expect(asLeef({ event_type: "x".repeat(300) }).split("|")[4]).toBe("x".repeat(255));
});

test("MFA and country are in CEF and LEEF", () => {
  const login = fixture("directory/020-login-with-name-and-email");
  expect(asCef(login)).toContain("flexString2=GB flexString2Label=country cn1=1 cn1Label=mfa");
  expect(asLeef(login)).toContain("\tmfa=true\tcountry=GB\t");
  expect(asCef({ ...login, mfa: false })).toContain("cn1=0 cn1Label=mfa");
});

test("every format has the severity of one table", () => {
  const ofTen = [0, 2, 3, 5, 8, 10];
  for (const [name, severity] of [
    ["directory/001-user-update", 1],
    ["directory/011-member-added", 2],
    ["directory/016-second-factor-removed", 3],
    ["directory/022-risk-event", 4],
    ["sso/006-push-refused", 2],
    ["password_vault/005-credential-exported", 3],
  ] as const) {
    const event = fixture(name);
    expect(asOcsf(event).severity_id, name).toBe(severity);
    expect(at(asEcs(event), "event.severity"), name).toBe(severity);
    expect(asCef(event).split("|")[6], name).toBe(String(ofTen[severity]));
    expect(asLeef(event), name).toContain(`\tsev=${ofTen[severity]}\t`);
  }
});

test("OCSF metadata.log_name is on every event, logins included", () => {
  const random = seeded(10);
  for (const { service, eventType } of documentedTypes) {
    const event = syntheticEvent(service, eventType, random, 0.4);
    expect(at(asOcsf(event), "metadata.log_name"), eventType).toBe(event.service);
  }
  expect(at(asOcsf({ event_type: "x" }), "metadata.log_name")).toBe("unknown");
});

test("sso shows the managed device, the label before the connector's type, the browser and the network", () => {
  const login = fixture("sso/005-from-a-managed-device");
  const inOcsf = asOcsf(login);
  expect([at(inOcsf, "device.hostname"), at(inOcsf, "device.is_managed")]).toEqual(["mac-17", true]);
  expect([at(inOcsf, "service.name"), inOcsf.auth_protocol]).toEqual(["Payroll", "SAML"]);
  expect(at(inOcsf, "http_request.user_agent")).toBe("Chrome/142.0.0.0");
  expect(at(inOcsf, "src_endpoint.autonomous_system")).toEqual({ number: 64496, name: "Example Telecom" });
  expect([at(inOcsf, "user.name"), at(inOcsf, "user.email_addr")]).toEqual(["jo.doe", "jo.doe@example.com"]);
  const inEcs = asEcs(login);
  expect(at(inEcs, "service.target")).toMatchObject({ name: "Payroll", type: "saml2" });
  expect(at(inEcs, "tidemark.device.managed")).toBe(true);
  expect(at(inEcs, "tidemark.authentication")).toEqual({
    mfa: true,
    factors: ["push", "password"],
    protocol: "saml",
  });
  expect(at(inEcs, "user_agent.os.full")).toBe("Mac OS X 10.15.7");
  expect(at(inEcs, "source.as")).toEqual({ number: 64496, organization: { name: "Example Telecom" } });
});

test("related.user has name and e-mail of a login", () => {
  const { related } = asEcs(fixture("directory/020-login-with-name-and-email"));
  expect((related as Fields).user).toEqual(["5d2f1f4d45886d6b8d1a0c02", "jo.doe@example.com", "jo.doe"]);
});

test("new types of sso, radius and ldap are authentications, unless their name says otherwise", () => {
  const classOf = (service: string, event_type: string) => {
    const event = { service, event_type, initiated_by: { type: "user", id: "u", username: "jo" } };
    return [asOcsf(event).class_uid, at(asEcs(event), "event.category")];
  };
  for (const [service, type] of [
    ["sso", "sso_auth_failed"],
    ["sso", "sso_auth_denied"],
    ["radius", "radius_eap_challenge"],
    ["ldap", "ldap_sasl_bind_refused"],
  ] as const)
    expect(classOf(service, type), type).toEqual([3002, ["authentication"]]);
  for (const [service, type] of [
    ["sso", "sso_config_update"],
    ["ldap", "ldap_compare"],
    ["directory", "unheard_of"],
  ] as const)
    expect(classOf(service, type)[0], type).not.toBe(3002);
});

test("ECS names the objects that events are about", () => {
  const removed = asEcs(fixture("directory/023-device-removed"));
  expect(removed.host).toMatchObject({ id: "5c86b7149fdce00001d38aaa", hostname: "srv1", name: "Server 1" });
  expect(at(asEcs(fixture("directory/024-command-run")), "tidemark.target")).toMatchObject({
    type: "command",
    name: "rm -rf",
  });
  expect(at(asEcs(fixture("directory/014-group-bound-to-an-application")), "service.target.name")).toBe(
    "Payroll",
  );
});

test("with the dataset of Elastic's integration, ECS has the fields that its dashboards filter by", () => {
  const format = ecs.create(
    { namespace: "jumpcloud", dataset: "jumpcloud.events", original: false },
    { describe },
  );
  const event = journalEvent(fixture("directory/020-login-with-name-and-email"));
  const out = JSON.parse(format.encode(event) as string) as Fields;
  expect(out.data_stream).toEqual({ type: "logs", dataset: "jumpcloud.events" });
  expect([at(out, "event.dataset"), at(out, "event.module")]).toEqual(["jumpcloud.events", "directory"]);
  expect(at(out, "jumpcloud.event.event_type")).toBe("user_login_attempt");
  expect(at(out, "source.user.name")).toBe("jo.doe");
  expect(ecs.options.safeParse({ dataset: "Not One" }).success).toBe(false);
});
