import { createVerify, generateKeyPairSync } from "node:crypto";
import { expect, it } from "vitest";
import { signedHeaders, systemIdentityOf } from "../../src/directory/signature.ts";

const { privateKey, publicKey } = generateKeyPairSync("rsa", {
  modulusLength: 2048,
  privateKeyEncoding: { type: "pkcs1", format: "pem" },
  publicKeyEncoding: { type: "spki", format: "pem" },
});
const CONFIG = JSON.stringify({ systemKey: "5f0c1e2d3b4a59687786a5b4" });

it("signs the request line and the date as specified", () => {
  const identity = systemIdentityOf(CONFIG, privateKey);
  const path = "/api/systems/5f0c1e2d3b4a59687786a5b4";
  const [dateName, date, authName, authorization] = signedHeaders(
    identity,
    "GET",
    path,
    Date.UTC(2026, 0, 2, 3, 4, 5),
  );
  expect([dateName, date, authName]).toEqual(["date", "Fri, 02 Jan 2026 03:04:05 GMT", "authorization"]);
  const match =
    /^Signature keyId="system\/5f0c1e2d3b4a59687786a5b4",headers="request-line date",algorithm="rsa-sha256",signature="([A-Za-z0-9+/=]+)"$/.exec(
      authorization!,
    );
  const verify = createVerify("RSA-SHA256").update(`GET ${path} HTTP/1.1\ndate: ${date}`);
  expect(verify.verify(publicKey, match![1]!, "base64")).toBe(true);
});

it.each([
  ["not json", privateKey, /not JSON/],
  ["{}", privateKey, /no usable systemKey/],
  ['{"systemKey":"a\\"b"}', privateKey, /no usable systemKey/],
  [CONFIG, "not a key", /no private key/],
  [
    CONFIG,
    generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    /needs RSA/,
  ],
])("says what is wrong with the agent's files: %s", (config, key, words) => {
  expect(() => systemIdentityOf(config, key)).toThrow(words);
});
