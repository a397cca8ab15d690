import { DAY_MS } from "../../core/time.ts";
import { currentParts } from "../log/current-parts.ts";
import type { PartFiles } from "../log/leaf.ts";
import { archivedEvents } from "../part/events.ts";
import type { Line } from "../part/manifest.ts";
import { openRange } from "../part/range.ts";
import type { ArchiveStore } from "../store/store.ts";
import { readEntries, readLog } from "./read.ts";

/*
 * Compares closed days with the service, event by event. For each organization and day:
 *
 *   returned  distinct identities that the service gives now
 *   held      distinct identities in the archive, computed from the stored bytes, with later additions
 *   erased    returned and not held, and the state names it as erased on the record
 *   missing   returned and not held otherwise
 *   onlyHeld  held and no longer returned: the service has deleted them
 *
 * Identities are made in the same way on both sides (A11). Bytes are not compared.
 */

/** One event as the service returned it: 32 hexadecimal digits, and its own id for messages. */
export interface ReturnedEvent {
  readonly identity: string;
  readonly id: string;
}

/** Asks the service for all events of an organization between two times. */
export type AskService = (
  accounts: readonly string[],
  organization: string,
  fromMs: number,
  toMs: number,
  signal: AbortSignal,
) => AsyncIterable<ReturnedEvent>;

export interface ReconcileQuery {
  /** Days as 2026-11-15, both included. */
  readonly from: string;
  readonly to: string;
  /** Empty: all. */
  readonly organizations: ReadonlySet<string>;
  /** The service has forgotten days that began before this. */
  readonly keptFromMs: number;
  /**
   * Whether the record of erasures names an event. Their number alone would not do: an event that the service has
   * deleted since would hide another one that was lost.
   */
  isErased(organization: string, day: string, event: ReturnedEvent): boolean;
}

export interface ReconciledDay {
  readonly day: string;
  readonly organization: string;
  readonly returned: number;
  readonly held: number;
  readonly erased: number;
  readonly onlyHeld: number;
  readonly missing: number;
  /** Ids of missing events, the first few. */
  readonly missingIds: readonly string[];
}

export interface Reconciliation {
  readonly days: number;
  readonly organizations: number;
  readonly returned: number;
  readonly held: number;
  readonly erased: number;
  readonly onlyHeld: number;
  readonly missing: number;
  /** Days of organizations that the service has forgotten: nothing can be said about them. */
  readonly forgotten: number;
  /** Days of organizations where the service has events that the archive lacks. */
  readonly incomplete: readonly ReconciledDay[];
}

const IDS_SHOWN = 5;

export async function reconcileArchive(
  store: ArchiveStore,
  ask: AskService,
  query: ReconcileQuery,
  signal: AbortSignal,
  onDay: (day: ReconciledDay) => void = () => {},
): Promise<Reconciliation> {
  const parts = currentParts((await readLog(store)).leaves).flatMap(({ leaf, files }) =>
    files === undefined ? [] : [{ leaf, files }],
  );
  const additions = await additionsOf(
    store,
    parts.filter(({ leaf }) => leaf.kind !== "day" && leaf.day >= query.from).map(({ files }) => files),
  );
  const total = { days: 0, returned: 0, held: 0, erased: 0, onlyHeld: 0, missing: 0, forgotten: 0 };
  const organizations = new Set<string>();
  const incomplete: ReconciledDay[] = [];
  for (const { leaf, files } of parts) {
    if (leaf.kind !== "day" || leaf.day < query.from || leaf.day > query.to) continue;
    for (const entry of await readEntries(store, files)) {
      signal.throwIfAborted();
      if ("gone" in entry || !isWanted(entry.line, query)) continue;
      if (Date.parse(leaf.day) < query.keptFromMs) {
        total.forgotten++;
        continue;
      }
      const later = additions.filter(({ line }) => line.organization === entry.line.organization);
      const day = await reconcileDay(store, ask, query, { files, line: entry.line }, later, signal);
      organizations.add(day.organization);
      total.days++;
      for (const name of ["returned", "held", "erased", "onlyHeld", "missing"] as const)
        total[name] += day[name];
      if (day.missing > 0) incomplete.push(day);
      onDay(day);
    }
  }
  return { ...total, organizations: organizations.size, incomplete };
}

function isWanted({ organization }: Line, { organizations }: ReconcileQuery): boolean {
  return organizations.size === 0 || organizations.has(organization);
}

interface Place {
  readonly files: PartFiles;
  readonly line: Line;
}

/** The lines of later additions; there are few of them. */
async function additionsOf(store: ArchiveStore, parts: readonly PartFiles[]): Promise<Place[]> {
  const found: Place[] = [];
  for (const files of parts)
    for (const entry of await readEntries(store, files))
      if ("line" in entry) found.push({ files, line: entry.line });
  return found;
}

async function reconcileDay(
  store: ArchiveStore,
  ask: AskService,
  { isErased }: ReconcileQuery,
  place: Place,
  later: readonly Place[],
  signal: AbortSignal,
): Promise<ReconciledDay> {
  const { day, organization, accounts } = place.line;
  const held = new Set<string>();
  for await (const identity of identitiesOf(store, place)) held.add(identity);
  for (const addition of later)
    for await (const identity of identitiesOf(store, addition, day)) held.add(identity);
  const returned = new Map<string, string>();
  const fromMs = Date.parse(day);
  for await (const event of ask(accounts, organization, fromMs, fromMs + DAY_MS, signal))
    returned.set(event.identity, event.id);
  const lacking = [...returned].filter(([identity]) => !held.has(identity));
  const missing = lacking.filter(([identity, id]) => !isErased(organization, day, { identity, id }));
  return {
    day,
    organization,
    returned: returned.size,
    held: held.size,
    erased: lacking.length - missing.length,
    onlyHeld: held.size - (returned.size - lacking.length),
    missing: missing.length,
    missingIds: missing.slice(0, IDS_SHOWN).map(([identity, id]) => id || identity),
  };
}

/** With a day, only events of that day: an addition may hold events of any. */
async function* identitiesOf(store: ArchiveStore, { files, line }: Place, day?: string) {
  const fromMs = day === undefined ? Number.NEGATIVE_INFINITY : Date.parse(day);
  const toMs = day === undefined ? Number.POSITIVE_INFINITY : fromMs + DAY_MS;
  const range = await openRange(store, files.data, line);
  for await (const { event } of archivedEvents(range, line.organization))
    if (event !== null && event.timestampMs >= fromMs && event.timestampMs < toMs) yield event.identity;
}
