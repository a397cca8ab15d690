import type { DuckDBConnection } from "@duckdb/node-api";
import { dayOf } from "../../core/archive.ts";
import type { JournalEvent } from "../../core/event.ts";
import { heldEvents } from "../../core/held-event.ts";
import type { HeldPage, HeldPart, Holdings } from "../../core/holdings.ts";
import type { Describe } from "../../core/meaning.ts";
import { type IndexPlace, type IndexRow, indexRowOf } from "../columns.ts";
import type { IndexCatalog, IndexFile } from "./catalog.ts";
import { createIndexWriter } from "./writer.ts";

export interface BuildContext {
  readonly holdings: Holdings;
  readonly connection: DuckDBConnection;
  readonly catalog: IndexCatalog;
  readonly describe: Describe;
}

/** The index of a closed part, made from its data file. */
export async function buildPart(
  context: BuildContext,
  name: string,
  part: HeldPart,
  signal: AbortSignal,
): Promise<IndexFile> {
  const { holdings, describe } = context;
  let events = 0;
  return write(context, name, async (add) => {
    for await (const frame of holdings.frames(part, signal)) {
      const { organization, content, slices, offset, storedBytes } = frame;
      events += frame.events;
      const found = heldEvents(
        organization,
        slices.map(({ start, length }) => content.subarray(start, start + length)),
      );
      for (const [at, event] of found.entries()) {
        const { row, start, length } = slices[at]!;
        const place = { part: part.number, row, frameOffset: offset, frameBytes: storedBytes, start, length };
        add(indexRowOf(organization, dayOfEvent(event), event, place, describe));
      }
    }
    if (events !== part.events)
      throw new Error(
        `${holdings.place}/${part.data} has ${events} events where its manifest has ${part.events}: run \`archive verify\`.`,
      );
  });
}

/** The index of consecutive pages of the journal. Undefined when one of them was trimmed meanwhile. */
export async function buildPages(
  context: BuildContext,
  name: string,
  pages: readonly HeldPage[],
  signal: AbortSignal,
): Promise<IndexFile | undefined> {
  try {
    return await write(context, name, async (add) => {
      for (const { number } of pages) {
        signal.throwIfAborted();
        for (const row of pageRows(context, number)) add(row);
        await new Promise((resolve) => setImmediate(resolve));
      }
    });
  } catch (error) {
    if (error instanceof TrimmedError) return undefined;
    throw error;
  }
}

class TrimmedError extends Error {}

function pageRows({ holdings, describe }: BuildContext, number: number): IndexRow[] {
  const page = holdings.page(number);
  if (page === undefined) throw new TrimmedError(`Page ${number} was trimmed.`);
  const owners = new Map<string, { slices: Uint8Array[]; days: string[]; places: IndexPlace[] }>();
  for (let index = 0; index < page.count; index++) {
    const event = page.event(index);
    if (page.isErased(event)) continue;
    const owner = page.organization(event);
    const own = owners.get(owner) ?? { slices: [], days: [], places: [] };
    owners.set(owner, own);
    own.slices.push(event.bytes);
    own.days.push(page.day(event));
    own.places.push({
      ...{ part: -number, row: index, frameOffset: 0, frameBytes: 0 },
      ...{ start: 0, length: event.size },
    });
  }
  return [...owners].flatMap(([owner, { slices, days, places }]) =>
    heldEvents(owner, slices).map((event, at) => indexRowOf(owner, days[at]!, event, places[at]!, describe)),
  );
}

async function write(
  { connection, catalog }: BuildContext,
  name: string,
  fill: (add: (row: IndexRow) => void) => Promise<void>,
): Promise<IndexFile> {
  const writer = await createIndexWriter(connection, "new_index");
  let [firstNs, lastNs]: [bigint, bigint] = [2n ** 62n, -(2n ** 62n)];
  try {
    await fill((row) => {
      const timeNs = row[0] as bigint;
      if (timeNs < firstNs) firstNs = timeNs;
      if (timeNs > lastNs) lastNs = timeNs;
      writer.add(row);
    });
  } catch (error) {
    await writer.discard();
    throw error;
  }
  const temporary = catalog.temporaryPath();
  await writer.finish(temporary);
  return catalog.add(name, temporary, { rows: writer.rows, firstNs, lastNs });
}

function dayOfEvent({ timestampMs }: JournalEvent): string {
  return timestampMs < -8e13 ? "" : dayOf(timestampMs);
}
