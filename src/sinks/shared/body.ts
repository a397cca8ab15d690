import type { Format } from "../../core/format.ts";

const NEWLINE = 0x0a;
const RETURN = 0x0d;
const SPACE = 0x20;

/** True when the format's bodies are JSON values. */
export function isJson(format: Format): boolean {
  return /[/+]json\b/.test(format.mediaType);
}

export function bytesOf(body: string | Uint8Array): Uint8Array {
  return typeof body === "string" ? Buffer.from(body) : body;
}

export function textOf(body: string | Uint8Array): string {
  return typeof body === "string"
    ? body
    : Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString();
}

/** Where records are lines, a break between JSON tokens must not end one: it becomes a space. */
export function singleLine(body: Uint8Array): Uint8Array {
  if (!body.includes(NEWLINE) && !body.includes(RETURN)) return body;
  return body.map((byte) => (byte === NEWLINE || byte === RETURN ? SPACE : byte));
}

/** The JSON object with one more member at its beginning, everything else as it was, byte for byte. */
export function spliceMember(object: Uint8Array, member: string): Uint8Array {
  const open = object.indexOf(0x7b);
  let next = open + 1;
  while (next < object.length && object[next]! <= SPACE) next++;
  const isEmpty = object[next] === 0x7d;
  return Buffer.concat([Buffer.from(`{${member}${isEmpty ? "" : ","}`), object.subarray(open + 1)]);
}

/** True when the body, which is JSON, is an object. */
export function isObject(body: Uint8Array): boolean {
  let at = 0;
  while (at < body.length && body[at]! <= SPACE) at++;
  return body[at] === 0x7b;
}
