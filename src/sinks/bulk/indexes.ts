import type { JournalEvent } from "../../core/event.ts";
import type { SinkContext } from "../../core/sink.ts";
import { isSuccess, jsonOf } from "../over-http/status.ts";
import type { BulkConnection } from "./answer.ts";
import { type BulkConfig, indexNames } from "./config.ts";

const MONTHLY = "tidemark-{month}";
/** The default of the first version. */
const DAILY = "tidemark-{date}";

/**
 * The template of the index names. Without one in the config it is the default by which the sink has written before.
 * A sink without such a state that has delivered before may have written daily indexes: it keeps them if the cluster
 * has any, because another index would take each repeated event again.
 */
export async function indexTemplateOf(
  { config, state, position, signal }: SinkContext<BulkConfig>,
  connection: BulkConnection,
): Promise<string> {
  if (config.index !== undefined) return config.index;
  if (config.dataStream) return "tidemark";
  if (state?.index === DAILY) return DAILY;
  // Also where the config named another index or a data stream before.
  if (typeof state?.index === "string") return MONTHLY;
  if (position.page === 0) return MONTHLY;
  const { base, headers } = connection;
  const url = `${base}/_cat/indices/tidemark-*?format=json&h=index`;
  const answer = await connection.send({ method: "GET", url, headers }, signal);
  if (!isSuccess(answer)) return DAILY;
  const listed = jsonOf(answer);
  const names = Array.isArray(listed) ? (listed as { readonly index?: unknown }[]) : [];
  return names.some(({ index }) => /^tidemark-\d{4}-\d\d-\d\d$/.test(String(index))) ? DAILY : MONTHLY;
}

/**
 * What decides the index of an event. It is durable with a batch's bounds: a batch that was begun is completed in the
 * same indexes, whatever the config says by then.
 */
export type IndexLayout = { readonly index: string; readonly dataStream: boolean };

/** Where an event goes. */
export interface IndexScheme {
  readonly layout: IndexLayout;
  indexOf(event: JournalEvent): string;
}

/** The scheme of this config, and the one of batches that another config has begun. */
export function indexSchemes({ unfinished }: SinkContext<BulkConfig>, layout: IndexLayout) {
  const own = schemeOf(layout);
  const earlier = unfinished?.layout as Partial<IndexLayout> | undefined;
  // A sink of another type may have had the name.
  const isOurs = typeof earlier?.index === "string" && earlier.index !== layout.index;
  const begun = isOurs ? schemeOf(earlier as IndexLayout) : undefined;
  const { page = 0, event: end = 0 } = unfinished?.to ?? {};
  const isBegun = (event: JournalEvent) => event.page < page || (event.page === page && event.index < end);
  return {
    own,
    begun,
    /** Whether an earlier attempt may have stored it. */
    isBegun,
    of: (event: JournalEvent): IndexScheme => (begun !== undefined && isBegun(event) ? begun : own),
  };
}

function schemeOf(layout: IndexLayout): IndexScheme {
  return { layout, indexOf: indexNames(layout.index) };
}

const KNOWN_MAX = 10_000;

/**
 * Creates the indexes of a batch before its events are sent: a bulk request that has to create many indexes
 * waits for each and runs into its time-out. Without the right to create an index, the bulk request does it.
 */
export function indexCreator(connection: BulkConnection, memory: Map<string, unknown>) {
  const known = (memory.get("indexes") as Set<string> | undefined) ?? new Set<string>();
  memory.set("indexes", known);
  let isAllowed = true;

  async function create(names: ReadonlySet<string>, signal: AbortSignal): Promise<void> {
    for (const name of names) {
      if (!isAllowed || known.has(name)) continue;
      const headers = { ...connection.headers, "content-type": "application/json" };
      const url = `${connection.base}/${encodeURIComponent(name)}`;
      const answer = await connection.send({ method: "PUT", url, headers, body: "{}" }, signal);
      // 400: it exists already.
      if (answer.status === 401 || answer.status === 403) isAllowed = false;
      else if (isSuccess(answer) || answer.status === 400) {
        if (known.size >= KNOWN_MAX) known.clear();
        known.add(name);
      } else return;
    }
  }

  return {
    create,
    /** After a refusal: an index may have been deleted, and is created again then. */
    forget: () => known.clear(),
  };
}
