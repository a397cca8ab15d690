import type { Effects } from "../http/faults.ts";

/** The page's body with whatever the faults do to it, and the number of elements that it has then. */
export function spoil(
  body: Buffer,
  count: number,
  effects: Effects,
  foreignEvent: () => Buffer | null,
): { readonly body: Buffer; readonly count: number } {
  let shown = { body, count };
  const foreign = effects.get("foreign_event") === undefined ? null : foreignEvent();
  if (foreign !== null) shown = withElement(shown.body, shown.count, foreign);
  const malformed = effects.get("malformed_event");
  if (malformed !== undefined)
    shown = withElement(
      shown.body,
      shown.count,
      Buffer.from(malformed.text ?? '{"id":"broken","value":NaN}'),
    );
  if (effects.get("byte_order_mark") !== undefined)
    shown = { ...shown, body: Buffer.concat([Buffer.from("\ufeff"), shown.body]) };
  if (effects.get("broken_json") !== undefined)
    shown = { ...shown, body: shown.body.subarray(0, Math.max(1, shown.body.length - 2)) };
  return shown;
}

function withElement(body: Buffer, count: number, element: Buffer): { body: Buffer; count: number } {
  const comma = body.length > 2 ? "," : "";
  return {
    body: Buffer.concat([body.subarray(0, -1), Buffer.from(comma), element, Buffer.from("]")]),
    count: count + 1,
  };
}
