import { once } from "node:events";
import { createFormat } from "../app/sinks.ts";
import { heldEvents, UNDATED_NS } from "../core/held-event.ts";
import { formatDuration } from "../core/time.ts";
import { indexRowOf } from "../search/columns.ts";
import type { Hit } from "../search/find/fetch.ts";
import { type Session, type ShownEvent, shownOf } from "../search/find/story.ts";
import { describe } from "../services/index.ts";
import type { Io } from "./io.ts";

export const OUTPUTS = ["table", "raw", "ocsf", "json"] as const;
export type Output = (typeof OUTPUTS)[number];

/** What the index says about a hit, made again from its bytes. */
export function shownHit(hit: Hit): ShownEvent {
  const [event] = heldEvents(hit.organization, [hit.bytes]);
  return shownOf(indexRowOf(hit.organization, "", event!, hit, describe));
}

/** Writes one event as one line, or as a row of a table. */
export function lineWriter(output: Output): { head: string; line(hit: Hit): string | Uint8Array } {
  switch (output) {
    case "raw":
      return { head: "", line: ({ bytes }) => bytes };
    case "ocsf": {
      const format = createFormat("ocsf", {});
      return {
        head: "",
        line: ({ organization, bytes }) => format.encode(heldEvents(organization, [bytes])[0]!),
      };
    }
    case "json":
      return { head: "", line: jsonLine };
    case "table":
      return { head: `${tableRow(HEAD)}\n`, line: (hit) => tableLine(shownHit(hit)) };
  }
}

/** The event's own text stays as it is inside the line. */
function jsonLine(hit: Hit): string {
  const { organization, identity, timeNs, part, row, bytes } = hit;
  const place = part < 0 ? { journalPage: -part, index: row } : { logEntry: part, index: row };
  const about = JSON.stringify({ time: searchTime(timeNs), organization, identity, ...place });
  return `${about.slice(0, -1)},"event":${bytes.toString("utf8").replaceAll("\n", " ")}}`;
}

const HEAD = ["TIME", "SERVICE", "EVENT TYPE", "OUTCOME", "ACTOR", "TARGET", "IP"];
const WIDTHS = [24, 18, 28, 8, 28, 28, 0];

function tableLine(shown: ShownEvent): string {
  return tableRow([
    searchTime(shown.time_ns as bigint),
    ...(["service", "event_type", "outcome", "actor", "target", "ip"] as const).map((name) =>
      String(shown[name] ?? shown.application ?? "-"),
    ),
  ]);
}

function tableRow(cells: readonly string[]): string {
  return cells
    .map((cell, at) => printable(cell).padEnd(WIDTHS[at]!))
    .join("  ")
    .trimEnd();
}

/** Values come from events: control characters must not reach a terminal. */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, "\ufffd");
}

export function searchTime(timeNs: bigint): string {
  if (timeNs === UNDATED_NS) return "without a time";
  return new Date(Number(timeNs / 1_000_000n)).toISOString();
}

/** A session as a headline and a line for each event. */
export function sessionText(session: Session, number: number): string {
  const { firstNs, lastNs, ips, countries, devices, services, failures, events } = session;
  const length = formatDuration(Number((lastNs - firstNs) / 1_000_000n));
  const from = [listed(ips), countries.length > 0 ? `(${listed(countries)})` : ""].filter(Boolean).join(" ");
  const facts = [
    `${searchTime(firstNs).slice(0, 16).replace("T", " ")} UTC, ${length}`,
    from,
    listed(devices),
    listed(services),
    `${events.length} events${failures > 0 ? `, ${failures} failed` : ""}`,
  ].filter(Boolean);
  const lines = events.map((event) => {
    const time = searchTime(event.time_ns as bigint).slice(11, 19);
    const about = [event.application, event.target, event.device].filter((one) => one !== null);
    const cells = [time, event.service, event.event_type, event.outcome, [...new Set(about)].join(", ")];
    return `  ${cells
      .map((cell, at) => printable(String(cell ?? "-")).padEnd([8, 18, 28, 8, 0][at]!))
      .join("  ")
      .trimEnd()}`;
  });
  return [`Session ${number}: ${printable(facts.join(" · "))}`, ...lines, ""].join("\n");
}

const LISTED_MAX = 4;

function listed(values: readonly string[]): string {
  const more = values.length > LISTED_MAX ? ` and ${values.length - LISTED_MAX} more` : "";
  return values.slice(0, LISTED_MAX).join(", ") + more;
}

/** Waits where the reader of the output is slower. */
export async function writeOut(io: Io, chunk: string | Uint8Array): Promise<void> {
  if (io.stdout.write(chunk)) return;
  await once(io.stdout, "drain", { signal: io.signal });
}
