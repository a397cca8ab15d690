import { elementSlices, memberSlices } from "./json-slices.ts";
import { type Received, type Reply, startServer } from "./server.ts";

const BODY_BYTES_MAX = 1_000_000;
const FIELD_BYTES_MAX = 65_536;

export interface SentinelOptions {
  readonly tenantId: string;
  readonly clientId: string;
  readonly clientSecret: string;
  readonly ruleId: string;
  readonly stream: string;
}

/**
 * A stand-in for Entra's token endpoint and Azure Monitor's Logs Ingestion API, after their documentation:
 * client credentials, 204 for a JSON array of rows, 1 MB a call, longer values cut at 64 KB.
 */
export async function startSentinel(options: SentinelOptions) {
  const rows: string[] = [];
  const state = {
    clientSecret: options.clientSecret,
    expiresInSeconds: 3599,
    tokensIssued: 0,
    validTokens: new Set<string>(),
    isForbidden: false,
    isThrottling: false,
    rowsMax: Number.POSITIVE_INFINITY,
    refusedIds: [] as readonly string[],
    cut: 0,
  };

  const server = await startServer((received): Reply => {
    if (received.path === `/${options.tenantId}/oauth2/v2.0/token`) return giveToken(received);
    const match = /^\/dataCollectionRules\/([^/]+)\/streams\/([^/]+)$/.exec(received.path);
    if (!match || received.query.get("api-version") !== "2023-01-01") return { status: 404 };
    return ingest(received, match[1]!, match[2]!);
  });

  function giveToken(received: Received): Reply {
    const form = new URLSearchParams(received.body.toString());
    if (
      form.get("grant_type") !== "client_credentials" ||
      form.get("scope") !== "https://monitor.azure.com/.default"
    )
      return { status: 400, body: { error: "invalid_request", error_description: "AADSTS900144: …" } };
    if (form.get("client_id") !== options.clientId || form.get("client_secret") !== state.clientSecret)
      return {
        status: 401,
        body: {
          error: "invalid_client",
          error_description: "AADSTS7000215: Invalid client secret provided.\r\nTrace ID: 1\r\nTimestamp: 2",
        },
      };
    const token = `token-${++state.tokensIssued}-of-entra`;
    state.validTokens.add(token);
    return {
      status: 200,
      body: { token_type: "Bearer", expires_in: state.expiresInSeconds, access_token: token },
    };
  }

  function ingest(received: Received, ruleId: string, stream: string): Reply {
    const token = received.headers.authorization?.replace(/^Bearer /, "") ?? "";
    if (!state.validTokens.has(token)) return refusal(401, "InvalidToken", "The token is not valid.");
    if (state.isForbidden) return refusal(403, "OperationFailed", "The authentication token lacks access.");
    if (ruleId !== options.ruleId) return refusal(404, "NotFound", "Data collection rule was not found.");
    if (stream !== options.stream) return refusal(400, "InvalidStream", "The stream was not configured.");
    if (state.isThrottling)
      return { ...refusal(429, "TooManyRequests", "Slow down."), headers: { "retry-after": "5" } };
    if (received.body.length > BODY_BYTES_MAX || received.wireBytes > BODY_BYTES_MAX)
      return refusal(413, "ContentLengthLimitExceeded", "Maximum allowed content length: 1048576 bytes.");
    let sent: string[];
    try {
      sent = elementSlices(received.body.toString());
    } catch {
      return refusal(400, "InvalidRequestBody", "Request body is not a JSON array.");
    }
    if (sent.length > state.rowsMax) return refusal(413, "ContentLengthLimitExceeded", "Too large.");
    if (sent.some((row) => state.refusedIds.some((id) => row.includes(id))))
      return refusal(400, "InvalidRecord", "A record is invalid.");
    for (const row of sent) {
      const values = [...memberSlices(row).values()];
      if (values.some((value) => Buffer.byteLength(value) > FIELD_BYTES_MAX)) state.cut++;
      else rows.push(row);
    }
    return { status: 204 };
  }

  return { server, state, rows: () => rows };
}

function refusal(status: number, code: string, message: string): Reply {
  return { status, body: { error: { code, message } } };
}
