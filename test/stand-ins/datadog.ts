import { elementSlices } from "./json-slices.ts";
import { type Reply, startServer } from "./server.ts";

const BODY_BYTES_MAX = 5_000_000;
const ITEM_BYTES_MAX = 1_000_000;
const ITEMS_MAX = 1000;
const AGE_MS_MAX = 18 * 3_600_000;

/**
 * A stand-in for Datadog's log intake, after its API reference: 202 for an accepted array, its limits on
 * body, item and array; a longer item is cut and an older one dropped, both without a word.
 */
export async function startDatadog(options: { apiKey: string; now: () => number }) {
  const items: string[] = [];
  const state = {
    apiKey: options.apiKey,
    itemsMax: ITEMS_MAX,
    refusedIds: [] as readonly string[],
    dropped: 0,
    cut: 0,
  };

  const server = await startServer((received): Reply => {
    const key = received.headers["dd-api-key"];
    if (received.path !== "/api/v2/logs" || received.method !== "POST") return refusal(404, "Not Found");
    if (key === undefined) return refusal(401, "Unauthorized");
    if (key !== state.apiKey) return refusal(403, "Forbidden");
    if (received.body.length > BODY_BYTES_MAX) return refusal(413, "Payload too large");
    let sent: string[];
    try {
      sent = elementSlices(received.body.toString());
      for (const item of sent) JSON.parse(item);
    } catch {
      return refusal(400, "Bad Request", "Invalid JSON");
    }
    if (sent.length > state.itemsMax) return refusal(413, "Payload too large");
    if (sent.some((item) => state.refusedIds.some((id) => item.includes(id))))
      return refusal(400, "Bad Request", "Invalid log");
    for (const item of sent) take(item);
    return { status: 202, body: {} };
  });

  function take(item: string): void {
    const { timestamp } = JSON.parse(item) as { timestamp: number };
    if (options.now() - timestamp > AGE_MS_MAX) state.dropped++;
    else if (Buffer.byteLength(item) > ITEM_BYTES_MAX) state.cut++;
    else items.push(item);
  }

  return { server, state, items: () => items };
}

function refusal(status: number, title: string, detail?: string): Reply {
  return { status, body: { errors: [{ status: String(status), title, detail }] } };
}
