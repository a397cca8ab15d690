import { expect, test } from "vitest";
import type { Fields } from "../../src/core/meaning.ts";
import { describe, describeForFormat, serviceOf, services } from "../../src/services/index.ts";
import { journalEvent } from "../formats/event.ts";

function outcomeOf(event: Fields): string {
  return describe(journalEvent(event)).meaning.outcome.is;
}

test("services have names of their own, and events find theirs under either name", () => {
  const names = services.flatMap((service) => [service.name, ...(service.aliases ?? [])]);
  expect(new Set(names).size).toBe(names.length);
  expect(serviceOf("alerts").name).toBe("alert");
  expect(serviceOf("password_manager").name).toBe("password_vault");
  expect(serviceOf("di_events").name).toBe("fallback");
  expect(serviceOf("constructor").name).toBe("fallback");
});

test("absent success is unknown, never failure", () => {
  expect(outcomeOf({ service: "directory", event_type: "user_create" })).toBe("unknown");
  expect(outcomeOf({ service: "directory", event_type: "user_create", success: null })).toBe("unknown");
  expect(outcomeOf({ service: "directory", event_type: "user_create", success: false })).toBe("failure");
  expect(outcomeOf({ service: "directory", event_type: "user_create", success: "TRUE" })).toBe("success");
});

test("the outcome of sso is its token: without one it failed only if there is an error", () => {
  const sso = { service: "sso", event_type: "sso_auth" };
  expect(outcomeOf(sso)).toBe("unknown");
  expect(outcomeOf({ ...sso, sso_token_success: true })).toBe("success");
  expect(outcomeOf({ ...sso, sso_token_success: false })).toBe("unknown");
  expect(outcomeOf({ ...sso, sso_token_success: false, error_message: "" })).toBe("unknown");
  expect(outcomeOf({ ...sso, sso_token_success: false, error_message: "no access" })).toBe("failure");
});

test("the outcome of mdm and object storage is a word", () => {
  const mdm = { service: "mdm", event_type: "mdm_command_result" };
  expect(outcomeOf({ ...mdm, status: "Acknowledged" })).toBe("success");
  expect(outcomeOf({ ...mdm, status: "CommandFormatError" })).toBe("failure");
  expect(outcomeOf({ ...mdm, status: "Idle" })).toBe("unknown");
  expect(outcomeOf({ ...mdm, status: "Error", success: true })).toBe("success");
  expect(outcomeOf({ service: "object_storage", result: "Success" })).toBe("success");
});

test("an event type that names its outcome has it where no field says otherwise", () => {
  expect(outcomeOf({ service: "sso", event_type: "sso_auth_failed" })).toBe("failure");
  expect(outcomeOf({ service: "sso", event_type: "sso_auth_failed", sso_token_success: false })).toBe(
    "failure",
  );
  expect(outcomeOf({ service: "reports", event_type: "scheduled_report_run_success" })).toBe("success");
  expect(outcomeOf({ service: "reports", event_type: "scheduled_report_run_failed", success: true })).toBe(
    "success",
  );
});

test("on systems src_ip is where a login came from and client_ip the system", () => {
  const login = {
    service: "systems",
    event_type: "user_login",
    client_ip: "198.51.100.1",
    src_ip: "10.0.2.2",
  };
  const { meaning } = describe(journalEvent({ ...login, system: { id: "s" } }));
  expect(meaning.origin?.ip?.value).toBe("10.0.2.2");
  expect(meaning.device?.ip?.value).toBe("198.51.100.1");
});

test("on systems geoip describes the address of the system, and the source only if it has the same address", () => {
  const login = {
    service: "systems",
    event_type: "user_login",
    system: { id: "s" },
    client_ip: "81.2.69.144",
    geoip: { country_code: "GB" },
  };
  const inside = describe(journalEvent({ ...login, src_ip: "10.0.2.2" })).meaning;
  expect(inside.device?.place?.country?.value).toBe("GB");
  expect(inside.origin?.place).toBeUndefined();
  const itself = describe(journalEvent({ ...login, src_ip: "81.2.69.144" })).meaning;
  expect(itself.origin?.place?.country?.value).toBe("GB");
});

test("a login keeps the name that was typed beside the e-mail of the actor", () => {
  const login = {
    service: "directory",
    event_type: "user_login_attempt",
    username: "jo.doe",
    initiated_by: { id: "u", type: "user", email: "jo@example.com" },
  };
  const { subject } = describe(journalEvent(login)).meaning;
  expect([subject?.id?.value, subject?.name?.value, subject?.email?.value]).toEqual([
    "u",
    "jo.doe",
    "jo@example.com",
  ]);
});

test("sso has the e-mail at the top level, the managed device in its context, and a protocol", () => {
  const event = {
    service: "sso",
    event_type: "sso_auth",
    initiated_by: { id: "u", type: "user", username: "jo" },
    jc_initiated_by_email: "jo@example.com",
    asn: { number: 64496, organization: "Example Telecom" },
    application: { id: "a", name: "saml2", display_label: "Payroll", sso_type: "oidc" },
    auth_context: { system: { id: "s", hostname: "mac-17" } },
  };
  const { meaning } = describe(journalEvent(event));
  expect(meaning.actor?.email?.value).toBe("jo@example.com");
  expect([meaning.device?.hostname?.value, meaning.device?.managed]).toEqual(["mac-17", true]);
  expect(meaning.authentication?.protocol).toBe("openid");
  expect([meaning.origin?.network?.number?.value, meaning.origin?.network?.organization?.value]).toEqual([
    64496,
    "Example Telecom",
  ]);
  const unmanaged = describe(journalEvent({ ...event, auth_context: {} })).meaning;
  expect(unmanaged.device).toBeUndefined();
});

test("a refused second factor is no accepted factor", () => {
  const factorsOf = (event: Fields) =>
    describe(
      journalEvent({ service: "sso", event_type: "sso_auth", ...event }),
    ).meaning.authentication?.factors.map((factor) => factor.kind);
  const methods = (protect: boolean) => ({
    auth_methods: { password: { success: true }, jumpcloud_protect: { success: protect } },
  });
  const push = { mfa_meta: { type: "push" } };
  expect(factorsOf({ ...push, mfa: true, auth_context: methods(true) })).toEqual(["push", "password"]);
  expect(factorsOf({ ...push, mfa: true, auth_context: methods(false) })).toEqual(["password"]);
  expect(factorsOf({ ...push, mfa: false })).toEqual([]);
  expect(factorsOf({ ...push })).toEqual(["push"]);
});

test("mdm names its device by the newer field too", () => {
  const { meaning } = describe(
    journalEvent({
      service: "mdm",
      event_type: "mdm_command_result",
      mdm_device_id: "d1",
      device_object_id: "d2",
    }),
  );
  expect([meaning.device?.id?.value, meaning.target?.id?.value]).toEqual(["d1", "d1"]);
});

test("geoip is read flat or nested, its coordinates as numbers or as text", () => {
  for (const geoip of [
    { country_code: "US", latitude: 33.5, longitude: -84.25 },
    { geoip: { country_code: "US", latitude: "33.5", longitude: "-84.25" } },
  ]) {
    const place = describe(journalEvent({ service: "directory", client_ip: "10.0.0.1", geoip })).meaning
      .origin?.place;
    expect([place?.country?.value, place?.latitude?.value, place?.longitude?.value]).toEqual([
      "US",
      33.5,
      -84.25,
    ]);
  }
});

test("numbers that a double cannot hold are kept as they were written", () => {
  const text =
    '{"a":9007199254740993,"b":[ -18446744073709551615,1],"c":1e400,"d":1.0,"e":9007199254740991,"f":"x 9007199254740993","g":1.5e3,"h":"\\" :99999999999999999"}';
  expect(describe(journalEvent(text)).event).toEqual({
    a: "9007199254740993",
    b: ["-18446744073709551615", 1],
    c: "1e400",
    d: 1,
    e: 9007199254740991,
    f: "x 9007199254740993",
    g: 1500,
    h: '" :99999999999999999',
  });
});

test("bytes that are no JSON object are kept as text", () => {
  for (const bytes of ["", "no", "[1]", "7", "null", '{"a":'])
    expect(describe({ ...journalEvent("{}"), bytes: Buffer.from(bytes) })).toMatchObject({
      service: "fallback",
      event: { original: bytes },
      unreadable: true,
    });
});

test("an event of very many values is kept as text; commas inside text are no values", () => {
  const many = `{"service":"directory","values":[${"0,".repeat(100_000)}0]}`;
  expect(describe(journalEvent(many))).toMatchObject({
    service: "fallback",
    event: { original: many },
    unreadable: true,
  });
  const text = `{"service":"directory","text":"\\",${",".repeat(300_000)}"}`;
  expect(describe(journalEvent(text))).toMatchObject({
    service: "directory",
    event: { text: `",${",".repeat(300_000)}` },
    unreadable: false,
  });
});

test("an event of more than 4 MB is not described for a format, and is text elsewhere", () => {
  const long = journalEvent(`{"service":"directory","text":"${"x".repeat(4 << 20)}"}`);
  expect(() => describeForFormat(long)).toThrow("more than the 4194304 that Tidemark converts");
  expect(describe(long)).toMatchObject({ service: "fallback", unreadable: true });
  expect(describeForFormat(journalEvent({ service: "directory" }))).toMatchObject({ unreadable: false });
});

test("an administrator who suspends somebody unnamed is not taken for the suspended", () => {
  const event = {
    service: "directory",
    event_type: "user_suspended",
    initiated_by: { id: "a", type: "admin" },
  };
  expect(describe(journalEvent(event)).meaning.target).toBeUndefined();
});
