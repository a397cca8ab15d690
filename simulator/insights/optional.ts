import { type Answer, json } from "../http/exchange.ts";
import { Problem } from "../http/problem.ts";
import { matching, type View } from "./page.ts";
import type { Query } from "./query.ts";

/** Endpoints of the vendor's OpenAPI that the specification does not list. */
export const optionalEndpoints: readonly string[] = ["count", "interval", "distinct"];

const unitsMs: Readonly<Record<string, number>> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 7 * 86_400_000,
};
const bucketsMax = 10_000;

export async function answerOptional(
  endpoint: string,
  view: View,
  query: Query,
  body: unknown,
): Promise<Answer> {
  const request = body as Readonly<Record<string, unknown>>;
  if (endpoint === "count") return json(200, { count: await count(view, query) });
  if (endpoint === "interval") return json(200, { buckets: await interval(view, query, request) });
  return json(200, { buckets: await distinct(view, query, request) });
}

async function count(view: View, query: Query): Promise<number> {
  let found = 0;
  for await (const _ of matching(view, query, null)) found++;
  return found;
}

async function interval(view: View, query: Query, request: Readonly<Record<string, unknown>>) {
  const unitMs = unitsMs[String(request.interval_unit)];
  const value = Number(request.interval_value ?? 1);
  if (unitMs === undefined || !Number.isInteger(value) || value < 1) {
    throw new Problem(400, "interval_unit must be s, m, h, d or w and interval_value a positive integer");
  }
  const stepMs = unitMs * value;
  const offset = zoneOffsetMs(request.timezone);
  const buckets = new Map<number, number>();
  for await (const event of matching(view, query, null)) {
    const key = Math.floor((view.store.ms(event) + offset) / stepMs) * stepMs - offset;
    buckets.set(key, (buckets.get(key) ?? 0) + 1);
    if (buckets.size > bucketsMax) throw new Problem(400, "The interval makes too many buckets");
  }
  const sorted = [...buckets].sort(([a], [b]) => a - b);
  return sorted.map(([key, docCount]) => ({
    key,
    key_as_string: new Date(key).toISOString(),
    doc_count: docCount,
  }));
}

/** "+0530" or "-07:00"; anything else counts as UTC. */
function zoneOffsetMs(zone: unknown): number {
  const match = typeof zone === "string" ? /^([+-])(\d\d):?(\d\d)$/.exec(zone) : null;
  if (match === null) return 0;
  const minutes = Number(match[2]) * 60 + Number(match[3]);
  return (match[1] === "-" ? -minutes : minutes) * 60_000;
}

async function distinct(view: View, query: Query, request: Readonly<Record<string, unknown>>) {
  const field = request.field;
  if (typeof field !== "string" || field === "") throw new Problem(400, "field is required");
  const path = field.split(".");
  const buckets = new Map<string, number>();
  for await (const event of matching(view, query, null)) {
    let value: unknown = JSON.parse(view.store.read(event).toString());
    for (const part of path) value = (value as Record<string, unknown> | null | undefined)?.[part];
    if (value === undefined || value === null || typeof value === "object") continue;
    buckets.set(String(value), (buckets.get(String(value)) ?? 0) + 1);
  }
  const sorted = [...buckets].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
  return sorted.slice(0, bucketsMax).map(([key, docCount]) => ({ key, doc_count: docCount }));
}
