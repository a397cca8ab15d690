import { memberSlices, valueSlices } from "./json-slices.ts";
import { type Received, type Reply, startServer } from "./server.ts";

/**
 * A stand-in for Splunk's HTTP Event Collector, after its documentation: the event endpoint with its reply
 * codes, indexer acknowledgement, and max_content_length. A request with an invalid event stores nothing.
 */
export async function startSplunk(options: {
  token: string;
  acknowledgement?: boolean;
  /** Other receivers of the protocol differ in these. */
  path?: string;
  scheme?: string;
}) {
  const { path = "/services/collector/event", scheme = "Splunk" } = options;
  const stored: string[] = [];
  /** By channel; the index is the number of the acknowledgement. */
  const channels = new Map<string, (readonly string[] | undefined)[]>();
  const state = {
    tokenDisabled: false,
    token: options.token,
    contentLengthMax: Number.POSITIVE_INFINITY,
    eventsMax: Number.POSITIVE_INFINITY,
    refusedIds: [] as readonly string[],
    allowedIndexes: undefined as readonly string[] | undefined,
    acknowledges: true,
    isBusy: false,
    /** Answers to events wait for it. */
    delay: undefined as Promise<void> | undefined,
    /** The answer of a gateway that has passed the events on. */
    gateway: undefined as Reply | undefined,
  };

  const server = await startServer(async (received): Promise<Reply> => {
    const denied = authorize(received);
    if (denied) return denied;
    if (state.isBusy) return reply(503, 9, "Server is busy");
    if (options.acknowledgement && !channelOf(received)) return reply(400, 10, "Data channel is missing");
    switch (received.path) {
      case path: {
        const answer = takeEvents(received);
        await state.delay;
        return state.gateway ?? answer;
      }
      case "/services/collector/ack":
        return tellAcks(received);
      default:
        return { status: 404, body: { text: "The requested URL was not found on this server.", code: 404 } };
    }
  });

  function authorize(received: Received): Reply | undefined {
    const header = received.headers.authorization;
    if (header === undefined) return reply(401, 2, "Token is required");
    if (!header.startsWith(`${scheme} `)) return reply(401, 3, "Invalid authorization");
    if (header !== `${scheme} ${state.token}`) return reply(403, 4, "Invalid token");
    if (state.tokenDisabled) return reply(403, 1, "Token disabled");
    return undefined;
  }

  function takeEvents(received: Received): Reply {
    if (received.body.length > state.contentLengthMax)
      return { status: 413, body: { text: "Content-Length is too large", code: 27 } };
    let envelopes: string[];
    try {
      envelopes = valueSlices(received.body.toString());
    } catch {
      return reply(400, 6, "Invalid data format", { "invalid-event-number": 0 });
    }
    if (envelopes.length === 0) return reply(400, 5, "No data");
    if (envelopes.length > state.eventsMax) return { status: 413, body: { text: "too large", code: 27 } };
    for (const [number, envelope] of envelopes.entries()) {
      const problem = problemOf(envelope);
      if (problem) return reply(400, problem.code, problem.text, { "invalid-event-number": number });
    }
    if (!options.acknowledgement) {
      stored.push(...envelopes);
      return reply(200, 0, "Success");
    }
    const channel = channelOf(received)!;
    const pending = channels.get(channel) ?? [];
    channels.set(channel, pending);
    return reply(200, 0, "Success", { ackId: pending.push(envelopes) - 1 });
  }

  function problemOf(envelope: string): { code: number; text: string } | undefined {
    const { event, index, time, fields } = JSON.parse(envelope) as Record<string, unknown>;
    // The documentation leaves the order open; a probe must manage with either.
    if (index !== undefined && state.allowedIndexes && !state.allowedIndexes.includes(String(index)))
      return { code: 7, text: "Incorrect index" };
    if (event === undefined) return { code: 12, text: "Event field is required" };
    if (event === "" || event === null) return { code: 13, text: "Event field cannot be blank" };
    if (typeof time !== "number") return { code: 6, text: "Invalid data format" };
    if (!isFlat(fields)) return { code: 15, text: "Error in handling indexed fields" };
    if (state.allowedIndexes && !state.allowedIndexes.includes(String(index)))
      return { code: 7, text: "Incorrect index" };
    if (state.refusedIds.some((id) => envelope.includes(id))) return { code: 6, text: "Invalid data format" };
    return undefined;
  }

  function tellAcks(received: Received): Reply {
    if (!options.acknowledgement) return reply(400, 14, "ACK is disabled");
    const { acks } = JSON.parse(received.body.toString()) as { acks: number[] };
    const told: Record<string, boolean> = {};
    const pending = channels.get(channelOf(received)!) ?? [];
    for (const ackId of acks) {
      const events = pending[ackId];
      told[ackId] = state.acknowledges && events !== undefined;
      // An acknowledgement is reported once and then forgotten.
      pending[ackId] = told[ackId] ? undefined : events;
      if (told[ackId]) stored.push(...events!);
    }
    return { status: 200, body: { acks: told } };
  }

  return {
    server,
    state,
    /** The envelopes that are stored. */
    envelopes: () => stored,
    /** The `event` members of what is stored, as they were sent. */
    events: () => stored.map((envelope) => memberSlices(envelope).get("event")!),
    /** Batches that are not acknowledged are lost, and the numbers of every channel begin again at 0. */
    restart: () => channels.clear(),
    /** Batches that are not acknowledged. */
    pending: () => [...channels.values()].flat().filter((events) => events !== undefined).length,
  };
}

function channelOf(received: Received): string | undefined {
  return (
    (received.headers["x-splunk-request-channel"] as string) ?? received.query.get("channel") ?? undefined
  );
}

function isFlat(fields: unknown): boolean {
  return Object.values((fields ?? {}) as object).every((value) => typeof value !== "object");
}

function reply(status: number, code: number, text: string, more: object = {}): Reply {
  return { status, body: { text, code, ...more } };
}
