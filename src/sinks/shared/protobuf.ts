/** A field of a protobuf message: a number for a varint, bytes for text, a message or a number of fixed length. */
export interface ProtobufField {
  readonly number: number;
  readonly value: bigint | Uint8Array;
}

/** The fields of a message in their order; undefined when the bytes are no message. Groups are not read. */
export function protobufFields(bytes: Uint8Array): readonly ProtobufField[] | undefined {
  const fields: ProtobufField[] = [];
  let at = 0;

  function varint(): bigint | undefined {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = bytes[at++];
      if (byte === undefined) return undefined;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return undefined;
  }

  function slice(length: bigint | undefined): Uint8Array | undefined {
    if (length === undefined || length > BigInt(bytes.length - at)) return undefined;
    at += Number(length);
    return bytes.subarray(at - Number(length), at);
  }

  while (at < bytes.length) {
    const tag = varint();
    if (tag === undefined || tag >> 3n === 0n) return undefined;
    const value = payloadOf(Number(tag & 7n));
    if (value === undefined) return undefined;
    fields.push({ number: Number(tag >> 3n), value });
  }
  return fields;

  function payloadOf(wireType: number): bigint | Uint8Array | undefined {
    if (wireType === 0) return varint();
    if (wireType === 1) return slice(8n);
    if (wireType === 2) return slice(varint());
    return wireType === 5 ? slice(4n) : undefined;
  }
}
