/*
 * Messages between the exporter and its search process, over the child's standard input and output:
 *
 *   4 bytes length of the head, 4 bytes length of the body, head as JSON, body as bytes
 *
 *   question   { id, request }            body: empty
 *   cancel     { id, cancel: true }       body: empty
 *   answer     { id, status, headers, events } or { id, error }   body: the answer's bytes
 */
const SIZES_BYTES = 8;
const MESSAGE_BYTES_MAX = 512 * 2 ** 20;

export interface Message {
  readonly head: Readonly<Record<string, unknown>>;
  readonly body: Buffer;
}

export function encodeMessage(head: object, body: Buffer = Buffer.alloc(0)): Buffer[] {
  const text = Buffer.from(JSON.stringify(head));
  const sizes = Buffer.alloc(SIZES_BYTES);
  sizes.writeUInt32BE(text.length, 0);
  sizes.writeUInt32BE(body.length, 4);
  return [sizes, text, body];
}

/** Puts messages together from the chunks of a stream. */
export async function* messagesOf(stream: NodeJS.ReadableStream): AsyncGenerator<Message> {
  let chunks: Buffer[] = [];
  let held = 0;
  let wanted = SIZES_BYTES;
  for await (const chunk of stream) {
    chunks.push(chunk as Buffer);
    held += (chunk as Buffer).length;
    if (held < wanted) continue;
    let bytes = Buffer.concat(chunks);
    for (;;) {
      if (bytes.length < SIZES_BYTES) break;
      const headBytes = bytes.readUInt32BE(0);
      const end = SIZES_BYTES + headBytes + bytes.readUInt32BE(4);
      if (end > MESSAGE_BYTES_MAX) throw new Error("A message between the processes is too long.");
      wanted = end;
      if (bytes.length < end) break;
      const head = JSON.parse(
        bytes.toString("utf8", SIZES_BYTES, SIZES_BYTES + headBytes),
      ) as Message["head"];
      yield { head, body: bytes.subarray(SIZES_BYTES + headBytes, end) };
      bytes = bytes.subarray(end);
      wanted = SIZES_BYTES;
    }
    chunks = [bytes];
    held = bytes.length;
  }
}
