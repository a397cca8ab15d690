import type { JournalEvent } from "../../core/event.ts";
import { bytesOf, isObject, singleLine, spliceMember, textOf } from "../shared/body.ts";
import { membersOf, skipSpace, stringAt } from "../shared/json-slices.ts";

const START_WITH_TIMESTAMP = Buffer.from('{"@timestamp":');
const TIMESTAMP_KEY = Buffer.from("@timestamp");
const ESCAPED_AT = Buffer.from("\\u0040");

/**
 * The document of an event: the format's bytes as they are, with @timestamp spliced in where they have none,
 * because a data stream requires it. A body that is no JSON object becomes the document's message.
 */
export function documentOf(
  event: JournalEvent,
  body: string | Uint8Array,
  isJsonFormat: boolean,
): Uint8Array {
  const bytes = singleLine(bytesOf(body));
  if (!isJsonFormat || !isObject(bytes))
    return Buffer.from(`{${timestampOf(event)},"message":${JSON.stringify(textOf(bytes))}}`);
  return hasTimestamp(bytes) ? bytes : spliceMember(bytes, timestampOf(event));
}

/** The member, at full precision where the served text is one that every version parses as a date. */
function timestampOf(event: JournalEvent): string {
  const isPlain = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/.test(event.timestamp);
  return `"@timestamp":"${isPlain ? event.timestamp : new Date(event.timestampMs).toISOString()}"`;
}

function hasTimestamp(object: Uint8Array): boolean {
  if (startsWithTimestamp(object)) return true;
  const buffer = Buffer.from(object.buffer, object.byteOffset, object.byteLength);
  if (!buffer.includes(TIMESTAMP_KEY) && !buffer.includes(ESCAPED_AT)) return false;
  // Values deeper inside have that text too. The object is not parsed: it may have very many members.
  for (const { name } of membersOf(object, skipSpace(object, 0)))
    if (stringAt(object, name) === "@timestamp") return true;
  return false;
}

function startsWithTimestamp(object: Uint8Array): boolean {
  let at = 0;
  while (at < START_WITH_TIMESTAMP.length && object[at] === START_WITH_TIMESTAMP[at]) at++;
  return at === START_WITH_TIMESTAMP.length;
}
