import { createHash, createHmac } from "node:crypto";
import { SignatureV4 } from "@smithy/signature-v4";
import { describe, expect, test } from "vitest";
import { awsSignedHeaders, presignedUrl } from "../../../src/sinks/aws/sign.ts";
import { mskToken } from "../../../src/sinks/kafka/msk-token.ts";

const NOW = Date.parse("2015-08-30T12:36:00Z");
/** The key of AWS's published test suite. */
const KEY = { accessKeyId: "AKIDEXAMPLE", secretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY" };

/** AWS's own implementation, as an oracle. */
class Sha256 {
  readonly #hash;
  constructor(secret?: string | Uint8Array) {
    this.#hash = secret === undefined ? createHash("sha256") : createHmac("sha256", secret);
  }
  update(data: Uint8Array | string): void {
    this.#hash.update(data);
  }
  async digest(): Promise<Uint8Array> {
    return this.#hash.digest();
  }
  reset(): void {}
}

function oracle(service: string, credentials: object) {
  return new SignatureV4({
    service,
    region: "eu-west-1",
    credentials: credentials as typeof KEY,
    sha256: Sha256 as never,
    applyChecksum: true,
  });
}

function asAws(url: URL, method: string, headers: Record<string, string>, body?: string) {
  return {
    method,
    protocol: "https:",
    hostname: url.hostname,
    path: url.pathname,
    query: Object.fromEntries(url.searchParams),
    headers: { host: url.host, ...headers },
    body,
  };
}

describe("signature version 4", () => {
  test.each([
    ["POST", "https://search.example/_bulk?timeout=20s&filter_path=errors,items.*.status", '{"a":1}\n'],
    ["GET", "https://search.example/", ""],
    ["PUT", "https://search.example/_index_template/a%20b~c?x=ü*'()", "body"],
  ])("signs %s %s as AWS's own library does", async (method, address, body) => {
    for (const credentials of [KEY, { ...KEY, sessionToken: "session/token==" }]) {
      const url = new URL(address);
      const headers = { "content-type": "application/json" };
      const signed = awsSignedHeaders({
        ...{ method, url, headers, body, region: "eu-west-1", service: "es", credentials, nowMs: NOW },
      });
      const expected = (await oracle("es", credentials).sign(asAws(url, method, headers, body) as never, {
        signingDate: new Date(NOW),
      })) as unknown as { readonly headers: Record<string, string> };
      expect(signed.authorization).toBe(expected.headers.authorization);
    }
  });

  test("presigns as AWS's own library does", async () => {
    const url = new URL("https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster%3AConnect");
    const credentials = { ...KEY, sessionToken: "session/token==" };
    const mine = presignedUrl(
      {
        ...{ method: "GET", url, headers: {}, body: "", region: "eu-west-1" },
        ...{ service: "kafka-cluster", credentials, nowMs: NOW },
      },
      900,
    );
    const expected = await oracle("kafka-cluster", credentials).presign(asAws(url, "GET", {}) as never, {
      signingDate: new Date(NOW),
      expiresIn: 900,
    });
    expect(Object.fromEntries(mine.searchParams)).toEqual(expected.query);
  });

  test("a token for Amazon MSK is the signed address in base64url, with the client's name behind it", () => {
    const text = Buffer.from(mskToken("eu-west-1", KEY, NOW), "base64url").toString();
    expect(mskToken("eu-west-1", KEY, NOW)).toMatch(/^[\w-]+$/);
    const url = new URL(text);
    expect(url.host).toBe("kafka.eu-west-1.amazonaws.com");
    expect(url.searchParams.get("Action")).toBe("kafka-cluster:Connect");
    expect(url.searchParams.get("X-Amz-Credential")).toBe(
      "AKIDEXAMPLE/20150830/eu-west-1/kafka-cluster/aws4_request",
    );
    expect(url.searchParams.get("X-Amz-Expires")).toBe("900");
    expect(text.endsWith("&User-Agent=tidemark")).toBe(true);
  });
});
