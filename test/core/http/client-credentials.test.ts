import { describe, expect, test } from "vitest";
import {
  type Client,
  clientCredentials,
  type TokenAnswer,
  type TokenRequest,
} from "../../../src/core/http/client-credentials.ts";
import { secretOf } from "../../../src/core/secret.ts";

const signal = new AbortController().signal;
const CLIENT: Client = {
  tokenUrl: "https://login.example/token",
  clientId: "a b",
  clientSecret: secretOf("s:1"),
  scope: "read",
  login: "basic",
};

function scene(client: Partial<Client> = {}) {
  const requests: TokenRequest[] = [];
  const state = { nowMs: 0, answers: [] as (TokenAnswer | Error)[] };
  const tokens = clientCredentials({
    client: { ...CLIENT, ...client },
    clock: { now: () => state.nowMs, sleep: () => Promise.reject(new Error("unused")) },
    async send(request) {
      requests.push(request);
      const answer = state.answers.shift() ?? {
        status: 200,
        text: JSON.stringify({ access_token: `t${requests.length}`, expires_in: 3600 }),
      };
      if (answer instanceof Error) throw answer;
      return answer;
    },
    refused: ({ status }) => new Error(`refused ${status}`),
  });
  return { tokens, requests, state };
}

describe("client credentials", () => {
  test("log in by Basic authentication, plain or encoded, or by fields of the body", async () => {
    const basic = async (client: Partial<Client>) => {
      const { tokens, requests } = scene(client);
      await tokens.get(signal);
      return requests[0]!;
    };
    const decode = (request: TokenRequest) =>
      Buffer.from(request.headers.authorization!.slice("Basic ".length), "base64").toString();
    expect(decode(await basic({}))).toBe("a b:s:1");
    expect(decode(await basic({ login: "basic_encoded" }))).toBe("a%20b:s%3A1");
    expect((await basic({})).body).toBe("grant_type=client_credentials&scope=read");
    const body = await basic({ login: "body" });
    expect(body.headers.authorization).toBeUndefined();
    expect(body.body).toContain("client_id=a+b&client_secret=s%3A1");
  });

  test("an answer that is far too long for a token is refused unread", async () => {
    const { tokens, state } = scene();
    const text = JSON.stringify({ access_token: "t1", expires_in: 3600, more: "x".repeat(65_536) });
    state.answers.push({ status: 200, text });
    await expect(tokens.get(signal)).rejects.toThrow("refused 200");
  });

  test("one request serves all callers, and a token is used until it is nearly over", async () => {
    const { tokens, requests, state } = scene();
    expect(await Promise.all([tokens.get(signal), tokens.get(signal)])).toEqual(["t1", "t1"]);
    state.nowMs = 3_299_999;
    expect(await tokens.get(signal)).toBe("t1");
    state.nowMs = 3_300_000;
    expect(await tokens.get(signal)).toBe("t2");
    expect(requests).toHaveLength(2);
  });

  test("a renewal that fails leaves the old token until it ends", async () => {
    const { tokens, state } = scene();
    await tokens.get(signal);
    state.nowMs = 3_400_000;
    state.answers = [new Error("down"), new Error("down")];
    expect(await tokens.get(signal)).toBe("t1");
    state.nowMs = 3_600_000;
    await expect(tokens.get(signal)).rejects.toThrow("down");
  });

  test("a refused token is forgotten, unless a newer one was fetched", async () => {
    const { tokens } = scene();
    tokens.forget(await tokens.get(signal));
    expect(await tokens.get(signal)).toBe("t2");
    tokens.forget("t1");
    expect(await tokens.get(signal)).toBe("t2");
  });

  test.each([
    { status: 401, text: '{"access_token":"x"}' },
    { status: 200, text: "<html>" },
    { status: 200, text: '{"access_token":""}' },
  ])("an answer without a token is refused: %j", async (answer) => {
    const { tokens, state } = scene();
    state.answers = [answer];
    await expect(tokens.get(signal)).rejects.toThrow(`refused ${answer.status}`);
  });

  test("a caller that stops waiting does not end the request of the others", async () => {
    const { tokens } = scene();
    const stopped = tokens.get(AbortSignal.abort(new Error("stopped")));
    const other = tokens.get(signal);
    await expect(stopped).rejects.toThrow("stopped");
    expect(await other).toBe("t1");
  });
});
