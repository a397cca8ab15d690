import { googleTokenStandIn } from "./google-tokens.ts";
import { elementSlices, memberSlices } from "./json-slices.ts";
import { type Received, type Reply, startServer } from "./server.ts";

const PARENT = "projects/p1/locations/eu/instances/i1";

/**
 * A stand-in for logs.import of the Chronicle API, after its reference: 200 with an empty object, errors with
 * `error.status`, a request whose logs are not all valid stores none.
 */
export async function startSecops() {
  const tokens = googleTokenStandIn();
  const stored: string[] = [];
  const state = {
    refusedIds: [] as readonly string[],
    logsMax: Number.POSITIVE_INFINITY,
    isForbidden: false,
    isBusy: false,
  };

  function take({ path, body }: Received): Reply {
    if (path !== `/v1/${PARENT}/logTypes/DIRECTORY/logs:import`)
      return refusal(404, "NOT_FOUND", "Requested entity was not found.");
    if (state.isForbidden)
      return refusal(403, "PERMISSION_DENIED", "Permission 'chronicle.logs.import' denied on resource.");
    if (state.isBusy) return refusal(429, "RESOURCE_EXHAUSTED", "Quota exceeded.");
    const source = memberSlices(memberSlices(body.toString()).get("inlineSource")!);
    const logs = elementSlices(source.get("logs")!);
    if (JSON.parse(source.get("forwarder")!) !== `${PARENT}/forwarders/f1`)
      return refusal(400, "INVALID_ARGUMENT", "forwarder not found.");
    if (logs.length === 0) return refusal(400, "INVALID_ARGUMENT", "logs must not be empty.");
    if (logs.length > state.logsMax)
      return refusal(413, "OUT_OF_RANGE", "Request payload size exceeds the limit.");
    const texts = logs.map(textOf);
    if (texts.some((text) => text === undefined || state.refusedIds.some((id) => text.includes(id))))
      return refusal(400, "INVALID_ARGUMENT", "a log entry is invalid.");
    stored.push(...logs);
    return { status: 200, body: {} };
  }

  const server = await startServer((received): Reply => {
    const given = tokens.answer(received);
    if (given) return given;
    if (!tokens.isAuthorized(received))
      return refusal(401, "UNAUTHENTICATED", "Request had invalid authentication.");
    return take(received);
  });
  return { server, state, tokens, logs: () => stored, texts: () => stored.map((log) => textOf(log)!) };
}

/** Undefined for a log that the API would refuse. */
function textOf(log: string): string | undefined {
  const { data, logEntryTime, collectionTime } = JSON.parse(log) as Record<string, string>;
  if (Date.parse(logEntryTime!) > Date.parse(collectionTime!)) return undefined;
  return Buffer.from(data!, "base64").toString();
}

function refusal(code: number, status: string, message: string): Reply {
  return { status: code, body: { error: { code, status, message } } };
}
