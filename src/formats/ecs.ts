import { z } from "zod";
import type { JournalEvent } from "../core/event.ts";
import { defineFormat } from "../core/format.ts";
import type { Describe, Described, Fields, Meaning, Party } from "../core/meaning.ts";
import { timestampMsOf } from "../core/time.ts";
import { people, places, related, things } from "./ecs/fields.ts";
import { ECS_VERSION, type EcsRow, ecsRowOf } from "./ecs/schema-9.4.0.ts";
import { partiesOf } from "./parties.ts";
import { PRODUCT, VENDOR } from "./product.ts";
import { fast } from "./recipes/with-recipes.ts";
import { severityOf } from "./severity.ts";

/** Field sets that are written here or that Elastic's own tools add. */
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
        "The name of the object for fields that ECS does not have. The original event is kept whole as `<namespace>.event`; map it as `flattened`, because its fields change type from event to event.",
    }),
  dataset: z
    .string()
    .regex(/^[a-z0-9_.]{1,100}$/, { error: "write lower-case letters, digits, dots and underscores" })
    .optional()
    .meta({
      description:
        "The value of `event.dataset` and `data_stream.dataset`. With `jumpcloud.events` and the namespace `jumpcloud`, the filters of the dashboards of Elastic's own integration find these events; `event.module` is then the service, as they expect. Left out, the dataset is `tidemark.<service>`.",
    }),
  original: z
    .boolean()
    .default(false)
    .meta({ description: "Whether `event.original` carries the original event as text." }),
});
type Options = z.output<typeof options>;

/** Elastic Common Schema. The original event is kept whole beside the mapped fields. */
export const ecs = defineFormat<Options>({
  name: "ecs",
  summary: "Elastic Common Schema 9.4.0, as JSON, with the original event under a namespace of its own.",
  hasRecipes: true,
  options,
  create(chosen, context) {
    const converter = (describe: Describe) => (event: JournalEvent) =>
      JSON.stringify(document(event, chosen, describe));
    return {
      name: "ecs",
      mediaType: "application/json",
      variable: [`${chosen.namespace}.event`],
      // `event.original` is the event as text inside a text, which is no copy.
      ...(chosen.original ? { encode: converter(context.describe) } : fast(converter, context)),
    };
  },
});

function document(source: JournalEvent, chosen: Options, describe: Describe): Fields {
  const described = describe(source);
  const { meaning, service } = described;
  const row = ecsRowOf(source.eventType, service, meaning.effects);
  const parties = partiesOf(meaning);
  const isLogin = row.category.includes("authentication");
  const out: Fields = {
    "@timestamp": timestamp(source),
    ecs: { version: ECS_VERSION },
    observer: { vendor: VENDOR, product: PRODUCT },
    data_stream: chosen.dataset === undefined ? undefined : { type: "logs", dataset: chosen.dataset },
    event: eventFields(source, described, row, chosen),
    organization: source.organization === null ? undefined : { id: source.organization },
  };
  people(out, meaning, parties, isLogin);
  places(out, meaning, parties);
  // The dashboards of Elastic's integration list users by this field.
  if (chosen.dataset !== undefined && (out.user as Fields | undefined)?.name !== undefined && out.source)
    out.source = { ...(out.source as Fields), user: nameFields(out.user as Fields) };
  things(out, described, parties);
  related(out, meaning, parties);
  out[chosen.namespace] = ownFields(source, described);
  return out;
}

function nameFields({ id, name, email }: Fields): Fields {
  return { id, name, email };
}

/** The fields that ECS does not have, and the original event. */
function ownFields(source: JournalEvent, { event, meaning }: Described): Fields {
  const { effects, privileges, link } = meaning;
  return {
    identity: source.identity,
    account: source.account,
    provider: source.provider ?? undefined,
    effects: effects.length > 0 ? effects : undefined,
    privileges: privileges.length > 0 ? privileges : undefined,
    target: partyFields(meaning.target),
    associate: partyFields(meaning.associate),
    link: link && { op: link.op },
    authentication: authenticationFields(meaning),
    device: meaning.device?.managed === undefined ? undefined : { managed: meaning.device.managed },
    event,
  };
}

function partyFields(party: Party | undefined): Fields | undefined {
  if (party === undefined) return undefined;
  return {
    kind: party.kind,
    type: party.type?.value,
    id: party.id?.value,
    name: (party.name ?? party.label ?? party.email)?.value,
  };
}

function authenticationFields({ authentication: auth }: Meaning): Fields | undefined {
  if (auth === undefined || (auth.mfa === undefined && auth.factors.length === 0)) return undefined;
  const factors = auth.factors.map((factor) => factor.kind);
  return {
    mfa: auth.mfa?.value,
    factors: factors.length > 0 ? factors : undefined,
    protocol: auth.protocol,
  };
}

const STRICT_TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$/;

/** At full precision where Elasticsearch can read it, else to the millisecond. */
function timestamp(source: JournalEvent): string {
  const { timestamp: served, timestampMs } = source;
  if (STRICT_TIMESTAMP.test(served) && timestampMsOf(served) !== undefined) return served;
  return new Date(timestampMs).toISOString();
}

function eventFields(source: JournalEvent, described: Described, row: EcsRow, chosen: Options): Fields {
  const { dataset, original } = chosen;
  const { service, meaning } = described;
  const { outcome } = meaning;
  return {
    kind: row.kind,
    category: row.category,
    type: row.type,
    outcome: outcome.is,
    action: source.eventType === "" ? undefined : source.eventType,
    id: source.id ?? source.identity,
    module: dataset === undefined ? "tidemark" : source.service || service,
    dataset: dataset ?? `tidemark.${service}`,
    provider: source.service === "" ? undefined : source.service,
    created: new Date(source.fetchedAtMs).toISOString(),
    reason: outcome.reason?.value,
    code: outcome.code?.value,
    severity: severityOf(source.eventType, meaning),
    original: original ? Buffer.from(source.bytes).toString("utf8") : undefined,
  };
}
