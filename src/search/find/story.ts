import { COLUMNS, type ColumnName, type IndexRow } from "../columns.ts";

/** An event as a table or a story shows it. */
export type ShownEvent = Readonly<Record<ColumnName, string | number | bigint | null>>;

export function shownOf(row: IndexRow): ShownEvent {
  return Object.fromEntries(COLUMNS.map(({ name }, at) => [name, row[at]!])) as ShownEvent;
}

/** What a person did in one go: events with no long pause between them. */
export interface Session {
  readonly firstNs: bigint;
  readonly lastNs: bigint;
  readonly ips: readonly string[];
  readonly countries: readonly string[];
  readonly devices: readonly string[];
  readonly services: readonly string[];
  readonly failures: number;
  readonly events: readonly ShownEvent[];
}

/** A longer pause begins a new session. */
const PAUSE_MINUTES = 30;
const PAUSE_NS = BigInt(PAUSE_MINUTES) * 60_000_000_000n;

/** Groups events, which come in time order, into sessions; each is given as soon as it has ended. */
export async function* sessionsOf(events: AsyncIterable<ShownEvent>): AsyncGenerator<Session> {
  let open: ShownEvent[] = [];
  for await (const event of events) {
    const before = open.at(-1);
    if (before !== undefined && (event.time_ns as bigint) - (before.time_ns as bigint) > PAUSE_NS) {
      yield sessionOf(open);
      open = [];
    }
    open.push(event);
  }
  if (open.length > 0) yield sessionOf(open);
}

function sessionOf(events: readonly ShownEvent[]): Session {
  const distinct = (name: ColumnName) => [
    ...new Set(events.flatMap((event) => (event[name] === null ? [] : [String(event[name])]))),
  ];
  return {
    firstNs: events[0]!.time_ns as bigint,
    lastNs: events.at(-1)!.time_ns as bigint,
    ips: distinct("ip"),
    countries: distinct("country"),
    devices: distinct("device"),
    services: distinct("service"),
    failures: events.filter(({ outcome }) => outcome === "failure").length,
    events,
  };
}
