import { hash } from "node:crypto";
import { formatPosition } from "../../core/position.ts";
import type { Batch } from "../../core/sink.ts";

/**
 * The key by which a receiver knows a repeated request. Made of the batch's bounds and its events: the bounds are durable
 * (`boundsFirst`), so the same batch has the same key, also after a crash.
 */
export function requestKeyOf({ from, to, records }: Batch): string {
  const identities = records.map(({ event }) => event.identity);
  const text = [formatPosition(from), formatPosition(to), ...identities].join("\n");
  return hash("sha256", text, "hex").slice(0, 32);
}
