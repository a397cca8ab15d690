import { z } from "zod";
import type { JournalEvent } from "../core/event.ts";
import { defineFormat, type FormatContext } from "../core/format.ts";
import type { Described, Fields } from "../core/meaning.ts";
import { timestampMsOf } from "../core/time.ts";
import { people, places, related, things } from "./ecs/fields.ts";
import { ECS_VERSION, type EcsRow, ecsRowOf } from "./ecs/schema-9.4.0.ts";
import { PRODUCT, VENDOR } from "./product.ts";

/** The field sets that are written here or that Elastic's own tools add. */
const TAKEN =
  "agent client data_stream ecs error event file group host labels log message observer organization package process related service source tags trace user user_agent".split(
    " ",
  );

const options = z.strictObject({
  namespace: z
    .string()
    .regex(/^[a-z][a-z0-9_]{0,62}$/, { error: "write lower-case letters, digits and underscores" })
    .refine((name) => !TAKEN.includes(name), { error: "this is the name of a field set of ECS" })
    .default("tidemark")
    .meta({
      description:
        "The name under which the original event is kept whole, as `<namespace>.event`; map it as `flattened`, for its fields change type from event to event.",
    }),
  original: z
    .boolean()
    .default(false)
    .meta({ description: "Whether `event.original` carries the original event as text." }),
});
type Options = z.output<typeof options>;

/** Elastic Common Schema. Nothing is taken out of the original: it is kept whole beside the mapped fields. */
export const ecs = defineFormat<Options>({
  name: "ecs",
  summary: "Elastic Common Schema 9.4.0, as JSON, with the original event under a namespace of its own.",
  options,
  create: (chosen, context) => ({
    name: "ecs",
    mediaType: "application/json",
    encode: (event) => JSON.stringify(document(event, chosen, context)),
  }),
});

function document(source: JournalEvent, chosen: Options, context: FormatContext): Fields {
  const described = context.describe(source);
  const { event, meaning } = described;
  const row = ecsRowOf(source.eventType);
  const out: Fields = {
    "@timestamp": timestamp(source),
    ecs: { version: ECS_VERSION },
    observer: { vendor: VENDOR, product: PRODUCT },
    event: eventFields(source, described, row, chosen.original),
    organization: source.organization === null ? undefined : { id: source.organization },
  };
  people(out, meaning, row.category.includes("authentication"));
  places(out, meaning);
  things(out, described);
  related(out, meaning);
  out[chosen.namespace] = {
    identity: source.identity,
    account: source.account,
    provider: source.provider ?? undefined,
    event,
  };
  return out;
}

const STRICT_TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$/;

/** At full precision where Elasticsearch reads it, else to the millisecond. */
function timestamp(source: JournalEvent): string {
  const { timestamp: served, timestampMs } = source;
  if (STRICT_TIMESTAMP.test(served) && timestampMsOf(served) !== undefined) return served;
  return new Date(timestampMs).toISOString();
}

function eventFields(source: JournalEvent, described: Described, row: EcsRow, original: boolean): Fields {
  const { outcome, risk } = described.meaning;
  return {
    kind: row.kind,
    category: row.category,
    type: row.type,
    outcome: outcome.is,
    action: source.eventType === "" ? undefined : source.eventType,
    id: source.id ?? source.identity,
    module: "tidemark",
    dataset: `tidemark.${described.service}`,
    provider: source.service === "" ? undefined : source.service,
    created: new Date(source.fetchedAtMs).toISOString(),
    reason: outcome.reason?.value,
    code: outcome.code?.value,
    severity: risk && SEVERITIES.get(risk.value.toLowerCase()),
    original: original ? Buffer.from(source.bytes).toString("utf8") : undefined,
  };
}

const SEVERITIES: ReadonlyMap<string, number> = new Map([
  ["info", 1],
  ["informational", 1],
  ["low", 2],
  ["medium", 3],
  ["high", 4],
  ["critical", 5],
]);
