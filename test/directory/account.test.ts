import { expect, it } from "vitest";
import { z } from "zod";
import { accountConnection, checkConnection, connectionOf } from "../../src/directory/account.ts";

const schema = z.strictObject(accountConnection).superRefine(checkConnection);
const KEY = { env: "KEY" };

function complaints(account: unknown): string[] {
  const parsed = schema.safeParse(account);
  return parsed.success
    ? []
    : parsed.error.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`);
}

it.each([
  ["us", "https://api.jumpcloud.com", "https://console.jumpcloud.com/api"],
  ["eu", "https://api.eu.jumpcloud.com", "https://console.eu.jumpcloud.com/api"],
  ["in", "https://api.in.jumpcloud.com", "https://console.in.jumpcloud.com/api"],
])("knows the addresses of the region %s", (region, insightsUrl, managementUrl) => {
  const connection = connectionOf(schema.parse({ name: "acme", region, apiKey: KEY }));
  expect(connection).toMatchObject({ insightsUrl, managementUrl });
});

it("lets every address be overridden, without its last slash", () => {
  const account = schema.parse({
    name: "acme",
    region: "eu",
    insightsUrl: "http://127.0.0.1:8080/",
    oauth: { clientId: "c", clientSecret: { file: "/run/secret" } },
    headersTimeout: "5s",
    bodyMax: "1MiB",
  });
  expect(connectionOf(account)).toMatchObject({
    insightsUrl: "http://127.0.0.1:8080",
    managementUrl: "https://console.eu.jumpcloud.com/api",
    credentials: { clientId: "c", tokenUrl: "https://admin-oauth.id.eu.jumpcloud.com/oauth2/token" },
    headersTimeoutMs: 5_000,
    bodyBytesMax: 2 ** 20,
  });
});

it.each([
  [{ name: "acme", apiKey: KEY }, /^region: set region to us, eu or in/],
  [{ name: "acme", region: "us" }, /^apiKey: give either apiKey or oauth/],
  [{ name: "acme", region: "us", apiKey: "literal" }, /^apiKey: a secret is written as/],
  [{ name: "acme", region: "us", apiKey: KEY, insightsUrl: "http://example.org" }, /^insightsUrl: use https/],
  [{ name: "acme", region: "us", apiKey: KEY, insightsUrl: "https://a:b@example.org" }, /no user, password/],
  [{ name: "a/b", region: "us", apiKey: KEY }, /^name: up to 64/],
  [
    {
      name: "acme",
      insightsUrl: "https://a",
      managementUrl: "https://b/api",
      oauth: { clientId: "c", clientSecret: KEY },
    },
    /^tokenUrl: oauth needs/,
  ],
])("refuses %j with a remedy", (account, words) => {
  const found = complaints(account);
  expect(found).toHaveLength(1);
  expect(found[0]).toMatch(words);
});

it("takes plain http beyond this machine only when told to", () => {
  const account = {
    name: "acme",
    apiKey: KEY,
    insightsUrl: "http://sim:80",
    managementUrl: "http://sim:80/api",
  };
  expect(complaints(account)).toHaveLength(2);
  expect(complaints({ ...account, plainHttp: true })).toEqual([]);
});

it("describes every field", () => {
  for (const [name, field] of Object.entries(accountConnection)) {
    expect(field.meta()?.description, name).toBeTruthy();
  }
});
