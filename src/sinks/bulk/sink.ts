import { PausedError, RejectedEventsError, TooLargeError } from "../../core/errors.ts";
import type { JournalEvent } from "../../core/event.ts";
import type { JournalPage } from "../../core/journal.ts";
import type { SharedLines } from "../../core/page-slice.ts";
import { type Batch, bodySizesOf, type Sink, type SinkContext } from "../../core/sink.ts";
import { halveIndexes } from "../over-http/halve.ts";
import { isSuccess } from "../over-http/status.ts";
import { isJson } from "../shared/body.ts";
import { linesOf } from "../shared/lines.ts";
import { bulkError, judge, resultsOf, saidOf } from "./answer.ts";
import type { BulkConfig } from "./config.ts";
import { connectBulk, greet } from "./connect.ts";
import type { BulkCredentials } from "./credentials.ts";
import { documentOf } from "./document.ts";
import { indexCreator, indexSchemes, indexTemplateOf } from "./indexes.ts";
import { withoutLongValues } from "./long-values.ts";
import type { Product } from "./mappings.ts";
import { createTurns, pressureOf, requestParts, sendParts } from "./pressure.ts";
import { type DocumentPlace, withStored } from "./stored.ts";
import { putTemplate } from "./template.ts";

export const BULK_PROMISE =
  "Exactly once in indexes: an event's _id and index come from the event itself, and `create` takes each _id once. In a data stream at least once: a batch repeated across a rollover is taken again.";

const STREAM_PROMISE =
  "At least once in a data stream: a batch repeated across a rollover is taken again. The identity is the _id of every event.";

export function bulkPromiseOf({ dataStream }: BulkConfig): string | undefined {
  return dataStream ? STREAM_PROMISE : undefined;
}

/** Documents in one bulk request. */
const REQUEST_RECORDS_MAX = 5000;
const LINE_BREAK = 0x0a;
/** Of an answer, without its items, and of an item with the reason why it was refused. */
const ANSWER_BYTES = 65_536;
const ITEM_BYTES_MAX = 4096;

/** The bulk API of both, with `create` and a deterministic _id: a repeated request is harmless. */
export async function openBulk(
  context: SinkContext<BulkConfig>,
  product: Product,
  credentials: BulkCredentials,
): Promise<Sink> {
  const { config, format } = context;
  const memory = context.memory ?? new Map();
  const { requester, connection } = await connectBulk(context, product, credentials);
  const { destination } = connection;

  let schemes: ReturnType<typeof indexSchemes>;
  try {
    await greet(connection, context.signal);
    const { dataStream } = config;
    schemes = indexSchemes(context, { index: await indexTemplateOf(context, connection), dataStream });
    if (config.template) {
      const layouts = [schemes.own, ...(schemes.begun ? [schemes.begun] : [])].map(({ layout }) => layout);
      const indexes = layouts.filter((each) => each.dataStream === dataStream).map(({ index }) => index);
      const names = { sink: context.name, indexes, isStream: dataStream };
      const refusal = await putTemplate(connection, names, product, format, context.signal);
      context.limited?.(refusal);
    }
  } catch (error) {
    await requester.close();
    throw error;
  }
  const { layout } = schemes.own;
  const isJsonFormat = isJson(format);
  // Elasticsearch itself leaves over-long values out of the index.
  const flatMembers = product === "OpenSearch" && isJsonFormat ? (format.variable ?? []) : [];
  const indexes = indexCreator(connection, memory);
  const pressure = pressureOf(memory, { requests: config.requestsMax, bytes: config.batchBytesMax });
  const inTurn = createTurns(() => pressure.width);
  const lines = createActionsAndDocuments();
  /** Indexes of encoded events that may not exist yet. */
  const needed = new Set<string>();
  let lastIndex: string | undefined;
  // The server reports a shard that is not allocated before our own time-out.
  const waitMs = Math.ceil(config.timeout / 3);
  const url = `${connection.base}/_bulk?timeout=${waitMs}ms&filter_path=took,errors,items.*.status,items.*.error.type,items.*.error.reason`;

  /** `places` are those of a part of the batch, and errors name them. */
  async function send(batch: Batch, part: readonly number[], places: readonly number[], signal: AbortSignal) {
    const headers = { ...connection.headers, "content-type": "application/x-ndjson" };
    const body = linesOf(
      batch,
      places.map((place) => part[place]!),
    );
    const answerBytesMax = ANSWER_BYTES + places.length * ITEM_BYTES_MAX;
    const answer = await requester.send({ url, headers, body, gzip: config.gzip, answerBytesMax }, signal);
    if (!isSuccess(answer)) {
      const error = bulkError(answer, destination);
      if (error) throw error;
      return {
        reason: `${product} answered ${answer.status}: ${saidOf(answer) ?? "no reason given"}`,
        answer: answer.text,
      };
    }
    const { items, tookMs } = resultsOf(answer, places.length);
    const placeOf = (at: number) => placeOfBegun(batch.records[part[places[at]!]!]!.event);
    judge(await withStored(connection, items, placeOf, signal), places, product);
    pressure.answered(tookMs);
    return undefined;
  }

  /** One part of a batch; indexes in its errors are places in the part. */
  async function sendPart(batch: Batch, part: readonly number[], signal: AbortSignal) {
    try {
      await halveIndexes(part.length, (places) => inTurn(() => send(batch, part, places, signal)));
    } catch (error) {
      if (signal.aborted) throw error;
      pressure.refused(error);
      if (error instanceof TooLargeError && part.length === 1)
        throw new RejectedEventsError(error.message, [{ index: 0, reason: error.message }], { cause: error });
      throw error;
    }
  }

  /** Where an event of a batch that was begun is stored, if it is. A data stream has it in one of many indexes. */
  function placeOfBegun(event: JournalEvent): DocumentPlace | undefined {
    const { layout: of, indexOf } = schemes.of(event);
    if (of.dataStream || !schemes.isBegun(event)) return undefined;
    return { _index: indexOf(event), _id: event.identity };
  }

  // The document is copied before the next event is converted.
  const encodeShared = format.encodeShared ?? format.encode;

  function addLines(event: JournalEvent, body: string | Uint8Array): void {
    const scheme = schemes.of(event);
    const index = scheme.indexOf(event);
    if (index !== lastIndex && !scheme.layout.dataStream) needed.add(index);
    lastIndex = index;
    const document = withoutLongValues(documentOf(event, body, isJsonFormat), flatMembers);
    lines.add(`{"create":{"_index":"${index}","_id":"${event.identity}"}}\n`, document);
  }

  function encode(event: JournalEvent): Uint8Array {
    lines.begin();
    addLines(event, encodeShared(event));
    return lines.bytes().subarray(0, -1);
  }

  function encodeMany(page: JournalPage, from: number, to: number): SharedLines | undefined {
    const many = format.encodeMany?.(page, from, to);
    if (many === undefined) return undefined;
    lines.begin();
    const ends = new Int32Array(many.ends.length);
    let start = 0;
    many.ends.forEach((end, at) => {
      addLines(page.event(from + at), many.bytes.subarray(start, end - 1));
      ends[at] = lines.bytes().length;
      start = end;
    });
    return { bytes: lines.bytes(), ends };
  }

  async function write(batch: Batch, signal: AbortSignal) {
    signal.throwIfAborted();
    const names = new Set(needed);
    needed.clear();
    lastIndex = undefined;
    await indexes.create(names, signal);
    const sizes = bodySizesOf(batch).map((size) => size + 1);
    try {
      await sendParts(requestParts(sizes, pressure.bytesMax, REQUEST_RECORDS_MAX), pressure.width, (part) =>
        sendPart(batch, part, signal),
      );
    } catch (error) {
      if (error instanceof PausedError) indexes.forget();
      throw error;
    }
    return { index: layout.index };
  }

  return {
    layout,
    // One request is one batch, so the next one is formed while others are in flight.
    writesMax: config.requestsMax,
    limits: {
      recordsMax: REQUEST_RECORDS_MAX,
      bytesMax: config.batchBytesMax,
      limitedBy: "batchBytesMax",
      recordBytesMax: config.batchBytesMax - 1,
      recordOverheadBytes: 1,
      ageMsMax: config.batchAgeMax,
    },
    encode,
    encodeMany,
    write,
    close: () => requester.close(),
  };
}

/** The two lines of each event in a bulk request. An action has nothing but ASCII: names are encoded. Memory is used again. */
function createActionsAndDocuments() {
  let memory = Buffer.allocUnsafeSlow(16 << 10);
  let filled = 0;
  return {
    /** Forgets all lines so far. */
    begin(): void {
      filled = 0;
    },
    add(action: string, document: Uint8Array): void {
      const end = filled + action.length + document.length + 1;
      if (end > memory.length) {
        const larger = Buffer.allocUnsafeSlow(2 * end);
        larger.set(memory.subarray(0, filled));
        memory = larger;
      }
      memory.write(action, filled, "latin1");
      memory.set(document, filled + action.length);
      memory[end - 1] = LINE_BREAK;
      filled = end;
    },
    bytes: (): Uint8Array => memory.subarray(0, filled),
  };
}
