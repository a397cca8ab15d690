import { createVerify, generateKeyPairSync } from "node:crypto";
import type { Received, Reply } from "./server.ts";

/**
 * A stand-in for Google's token endpoints, after their documentation: the exchange of a signed assertion, of a
 * workload identity's token with impersonation, and the metadata server.
 */
export function googleTokenStandIn() {
  const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const state = { refuses: false, issued: 0, valid: new Set<string>(), subjectToken: "token-of-the-cluster" };

  function issue(): string {
    const token = `ya29.token-${++state.issued}`;
    state.valid.add(token);
    return token;
  }

  /** Undefined for other paths. */
  function answer({ path, body, headers, method }: Received): Reply | undefined {
    if (path === "/token") return assertion(new URLSearchParams(body.toString()));
    if (path === "/sts") return exchange(new URLSearchParams(body.toString()));
    if (path === "/impersonate") {
      if (headers.authorization !== "Bearer federated-token") return { status: 401 };
      const expireTime = new Date(Date.now() + 3_600_000).toISOString();
      return { status: 200, body: { accessToken: issue(), expireTime } };
    }
    if (path === "/computeMetadata/v1/instance/service-accounts/default/token") {
      if (method !== "GET" || headers["metadata-flavor"] !== "Google") return { status: 403 };
      return { status: 200, body: { access_token: issue(), expires_in: 3599, token_type: "Bearer" } };
    }
    return undefined;
  }

  function assertion(form: URLSearchParams): Reply {
    const [header = "", claims = "", signature = ""] = (form.get("assertion") ?? "").split(".");
    const isSigned = createVerify("RSA-SHA256")
      .update(`${header}.${claims}`)
      .verify(publicKey, signature, "base64url");
    const { iss, scope, exp, iat } = JSON.parse(Buffer.from(claims, "base64url").toString()) as Record<
      string,
      unknown
    >;
    const isFresh = Number(exp) * 1000 > Date.now() && Number(exp) - Number(iat) <= 3600;
    if (state.refuses || !isSigned || iss !== "tidemark@example.iam.gserviceaccount.com")
      return { status: 400, body: { error: "invalid_grant", error_description: "Invalid JWT Signature." } };
    if (!isFresh)
      return { status: 400, body: { error: "invalid_grant", error_description: "Invalid JWT: iat and exp" } };
    if (scope !== "https://www.googleapis.com/auth/cloud-platform")
      return { status: 400, body: { error: "invalid_scope" } };
    return { status: 200, body: { access_token: issue(), expires_in: 3599, token_type: "Bearer" } };
  }

  function exchange(form: URLSearchParams): Reply {
    if (form.get("subject_token") !== state.subjectToken || form.get("audience") !== "//iam/pool")
      return { status: 400, body: { error: "invalid_request", error_description: "Invalid token" } };
    return { status: 200, body: { access_token: "federated-token", expires_in: 3600 } };
  }

  return {
    state,
    answer,
    isAuthorized: ({ headers }: Received) =>
      state.valid.has((headers.authorization ?? "").replace(/^Bearer /, "")),
    /** The JSON of a service account's key. */
    keyOf: (url: string) =>
      JSON.stringify({
        type: "service_account",
        client_email: "tidemark@example.iam.gserviceaccount.com",
        private_key_id: "k1",
        private_key: privateKey.export({ type: "pkcs8", format: "pem" }),
        token_uri: `${url}/token`,
      }),
    federationOf: (url: string, file: string) =>
      JSON.stringify({
        type: "external_account",
        audience: "//iam/pool",
        subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
        token_url: `${url}/sts`,
        credential_source: { file },
        service_account_impersonation_url: `${url}/impersonate`,
      }),
  };
}
