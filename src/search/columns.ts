import { hash } from "node:crypto";
import type { JournalEvent } from "../core/event.ts";
import { eventTimeNs } from "../core/held-event.ts";
import { type Describe, decide, type Leaf, type Meaning, type Party } from "../core/meaning.ts";

/** Increase it when rows get other content: index files of another version are made anew. */
export const INDEX_VERSION = 1;

interface Column {
  readonly name: string;
  readonly type: "BIGINT" | "INTEGER" | "VARCHAR";
  /** For `tidemark sql` and its documentation; columns without one are internal. */
  readonly description?: string;
}

/** The columns of an index file, in order. */
export const COLUMNS = [
  { name: "time_ns", type: "BIGINT" },
  { name: "day", type: "VARCHAR" },
  { name: "organization", type: "VARCHAR", description: "the organization's id, or provider:ID" },
  { name: "service", type: "VARCHAR", description: "the event's own service" },
  { name: "event_type", type: "VARCHAR", description: "the event's type" },
  { name: "actor", type: "VARCHAR", description: "the name of the user or administrator who acted" },
  { name: "actor_id", type: "VARCHAR", description: "the actor's id" },
  { name: "target", type: "VARCHAR", description: "the name of what was acted upon" },
  { name: "target_id", type: "VARCHAR", description: "the target's id" },
  { name: "ip", type: "VARCHAR", description: "where the request came from" },
  { name: "country", type: "VARCHAR", description: "the country of that address" },
  { name: "outcome", type: "VARCHAR", description: "success, failure or unknown" },
  { name: "application", type: "VARCHAR", description: "the application's name" },
  { name: "application_id", type: "VARCHAR", description: "the application's id" },
  { name: "device", type: "VARCHAR", description: "the device's host name or label" },
  { name: "device_id", type: "VARCHAR", description: "the device's id" },
  { name: "correlation", type: "VARCHAR", description: "the correlation id" },
  { name: "id", type: "VARCHAR", description: "the event's id" },
  { name: "identity", type: "VARCHAR", description: "the event's identity in the archive" },
  { name: "bytes_hash", type: "VARCHAR" },
  { name: "people", type: "VARCHAR" },
  { name: "things", type: "VARCHAR" },
  { name: "part", type: "BIGINT" },
  { name: "row", type: "INTEGER" },
  { name: "frame_offset", type: "BIGINT" },
  { name: "frame_bytes", type: "INTEGER" },
  { name: "start", type: "INTEGER" },
  { name: "length", type: "INTEGER", description: "the event's length in bytes" },
] as const satisfies readonly Column[];

export type ColumnName = (typeof COLUMNS)[number]["name"];
export type IndexRow = (string | number | bigint | null)[];

/** Where an event is: in a frame of a part, or (part below 0) in a page of the journal. */
export interface IndexPlace {
  readonly part: number;
  readonly row: number;
  readonly frameOffset: number;
  readonly frameBytes: number;
  readonly start: number;
  readonly length: number;
}

/** The index row of an event. `day` is the day under which it is, or will be, closed. */
export function indexRowOf(
  owner: string,
  day: string,
  event: JournalEvent,
  place: IndexPlace,
  describe: Describe,
): IndexRow {
  const { meaning } = describe(event);
  const { actor = meaning.subject, target, origin, device, application } = meaning;
  return [
    eventTimeNs(event),
    day,
    owner,
    event.service || null,
    event.eventType || null,
    nameOf(actor),
    textOf(actor?.id),
    nameOf(target),
    textOf(target?.id),
    textOf(origin?.ip) ?? textOf(device?.ip),
    textOf((origin?.place ?? device?.place)?.country),
    meaning.outcome.is,
    textOf(application?.label) ?? textOf(application?.name),
    textOf(application?.id),
    textOf(device?.hostname) ?? textOf(device?.name),
    textOf(device?.id),
    event.correlationId ?? null,
    event.id ?? null,
    event.identity,
    hashOf(event.bytes),
    wordsOf(peopleOf(meaning)),
    wordsOf(thingsOf(meaning)),
    BigInt(place.part),
    place.row,
    BigInt(place.frameOffset),
    place.frameBytes,
    place.start,
    place.length,
  ];
}

/** The first half of SHA-256, as a hit is checked by it. */
export function hashOf(bytes: Uint8Array): string {
  return hash("sha256", bytes, "hex").slice(0, 32);
}

function textOf(leaf: Leaf | undefined): string | null {
  return leaf === undefined ? null : String(decide(leaf));
}

function nameOf(party: Party | undefined): string | null {
  return textOf(party?.email ?? party?.name ?? party?.label ?? party?.distinguishedName);
}

/** Every name, address and id of the people of an event. */
function peopleOf({ actor, subject, target, associate, link }: Meaning): (Leaf | undefined)[] {
  return [actor, subject, target, associate, link?.from, link?.to].flatMap((party) =>
    party === undefined
      ? []
      : [party.name, party.email, party.id, party.otherId, party.label, party.distinguishedName],
  );
}

/** Every name, address and id of devices and applications. */
function thingsOf({ device, application, origin }: Meaning): (Leaf | undefined)[] {
  return [
    device?.hostname,
    device?.name,
    device?.id,
    device?.ip,
    origin?.ip,
    application?.name,
    application?.label,
    application?.id,
  ];
}

/** In lower case, each between two line breaks, so that a whole word is found with `contains`. */
function wordsOf(leaves: readonly (Leaf | undefined)[]): string | null {
  const words = new Set(
    leaves.flatMap((leaf) =>
      leaf === undefined ? [] : [String(decide(leaf)).toLowerCase().replaceAll("\n", " ")],
    ),
  );
  return words.size === 0 ? null : `\n${[...words].join("\n")}\n`;
}

export function wordFilter(word: string): string {
  return `\n${word.toLowerCase().replaceAll("\n", " ")}\n`;
}
