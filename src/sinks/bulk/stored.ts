import { RetryableError } from "../../core/errors.ts";
import { isSuccess, jsonOf } from "../over-http/status.ts";
import { type BulkConnection, type BulkItem, bulkError, isRefusal } from "./answer.ts";

export interface DocumentPlace {
  readonly _index: string;
  readonly _id: string;
}

/** Of an answer, and of each document in it. */
const ANSWER_BYTES = 65_536;
const DOCUMENT_BYTES = 1024;

/**
 * The items of an answer, where refused ones whose documents are stored count as done. A cluster parses a document before
 * it looks for its _id, so after a change of mappings or settings it refuses what it has stored. `placeOf` is undefined
 * for a document that cannot be stored yet, or cannot be asked for.
 */
export async function withStored(
  { base, headers, destination, send }: BulkConnection,
  items: readonly BulkItem[],
  placeOf: (at: number) => DocumentPlace | undefined,
  signal: AbortSignal,
): Promise<readonly BulkItem[]> {
  const docs = items.flatMap((item, at) => {
    const place = isRefusal(item) ? placeOf(at) : undefined;
    return place === undefined ? [] : [place];
  });
  if (docs.length === 0) return items;
  const answer = await send(
    {
      url: `${base}/_mget?_source=false&filter_path=docs._index,docs._id,docs.found`,
      headers: { ...headers, "content-type": "application/json" },
      body: JSON.stringify({ docs }),
      answerBytesMax: ANSWER_BYTES + docs.length * DOCUMENT_BYTES,
    },
    signal,
  );
  const error = bulkError(answer, destination);
  if (error instanceof RetryableError) throw error;
  const found = isSuccess(answer) ? jsonOf(answer)?.docs : undefined;
  // Without the right to read, the refusal counts.
  if (!Array.isArray(found)) return items;
  const stored = new Set(found.filter((each) => each.found === true).map(({ _id }) => _id));
  return items.map((item, at) =>
    isRefusal(item) && stored.has(placeOf(at)?._id) ? { ...item, status: 409 } : item,
  );
}
