import { once } from "node:events";
import type { Command } from "commander";
import { z } from "zod";
import { systemClock } from "../core/clock.ts";
import { explain, UsageError } from "../core/errors.ts";
import type { JournalEvent } from "../core/event.ts";
import type { Format, FormatDefinition } from "../core/format.ts";
import { IDENTITY_BYTES, preparePage, UNDATED_MS } from "../core/prepare-page.ts";
import { eventBytes, eventSize, FIELD, fieldText } from "../core/scanner.ts";
import { formats as allFormats } from "../formats/index.ts";
import { describeForFormat } from "../services/index.ts";
import type { Io } from "./io.ts";

/** Formats whose records are lines; the others need a sink that writes files. */
const formats = allFormats.filter(({ container }) => container === undefined);

/** `tidemark convert`: events from stdin, one per line or as an array, written in another format to stdout. */
export function registerConvert(program: Command, io: Io): void {
  const command = program
    .command("convert")
    .summary("write events in another format")
    .description(
      "Write events from stdin in another format to stdout. The input is one JSON object per line, or a JSON array of events as the API returns it.",
    )
    .requiredOption("--format <name>", `one of ${formats.map((format) => format.name).join(", ")}`)
    .addHelpText("after", "\nExample:\n  $ tidemark convert --format ocsf < events.jsonl");
  for (const [name, { description, formats: users }] of optionFlags()) {
    command.option(`--${flagOf(name)} [value]`, `${description} (${users.join(", ")})`);
  }
  command.action(async (flags: Record<string, string | true>) => {
    const format = chosenFormat(flags);
    const failures = await convertLines(format, io);
    if (failures > 0) io.setExitCode(1);
  });
}

/** Each option of each format as a flag; formats that share a name share the flag. */
function optionFlags(): Map<string, { description: string; formats: string[] }> {
  const flags = new Map<string, { description: string; formats: string[] }>();
  for (const format of formats) {
    for (const [name, schema] of Object.entries(shapeOf(format))) {
      const known = flags.get(name);
      if (known) known.formats.push(format.name);
      else flags.set(name, { description: schema.meta()?.description ?? "", formats: [format.name] });
    }
  }
  return flags;
}

function shapeOf(format: FormatDefinition): Readonly<Record<string, z.ZodType>> {
  return format.options instanceof z.ZodObject ? (format.options.shape as Record<string, z.ZodType>) : {};
}

function flagOf(option: string): string {
  return option.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

function chosenFormat(flags: Readonly<Record<string, string | true>>): Format {
  const definition = formats.find((format) => format.name === flags.format);
  if (definition === undefined) {
    throw new UsageError(
      `--format ${flags.format}: there is no such format; use ${formats.map((format) => format.name).join(", ")}.`,
    );
  }
  const values = Object.fromEntries(
    Object.entries(flags)
      .filter(([name]) => name !== "format")
      .map(([name, value]) => [name, given(value)]),
  );
  const parsed = definition.options.safeParse(values);
  if (!parsed.success) {
    throw new UsageError(
      `The options do not fit the format ${definition.name}:\n${z.prettifyError(parsed.error)}`,
    );
  }
  return definition.create(parsed.data, { describe: describeForFormat });
}

/** A flag without a value is true. */
function given(flag: string | true): string | boolean {
  if (flag === "true" || flag === "false") return flag === "true";
  return flag;
}

/** Converts line by line; lines without an event, and events that a running sink refuses, are reported and skipped. */
async function convertLines(format: Format, io: Io): Promise<number> {
  let failures = 0;
  let undated = 0;
  const report = (what: string, error: unknown) => {
    failures++;
    io.stderr.write(`${what} was not converted: ${explain(error)}\n`);
  };
  for await (const { bytes, number } of unitsOf(io.stdin)) {
    if (io.signal.aborted) break;
    try {
      const found = eventsOf(bytes, number);
      undated += found.undated;
      for (const event of found.events) {
        const body = encoded(format, event);
        if (body instanceof Error) {
          report(found.isArray ? `Line ${number}, event ${event.index + 1}` : `Line ${number}`, body);
          continue;
        }
        io.stdout.write(typeof body === "string" ? body : Buffer.from(body));
        if (!io.stdout.write("\n")) await once(io.stdout, "drain", { signal: io.signal });
      }
    } catch (error) {
      if (io.signal.aborted) throw error;
      report(`Line ${number}`, error);
    }
  }
  if (undated > 0) {
    const count = undated === 1 ? "1 event has" : `${undated} events have`;
    io.stderr.write(`${count} no readable timestamp. The time of conversion is written instead.\n`);
  }
  return failures;
}

function encoded(format: Format, event: JournalEvent): string | Uint8Array | Error {
  try {
    return format.encode(event);
  } catch (error) {
    return error as Error;
  }
}

interface Unit {
  readonly bytes: Buffer;
  /** The number of its first line. */
  readonly number: number;
}

/**
 * The lines that are not blank. An input that begins with an array over several lines, as a printed answer
 * of the API does, is one unit.
 */
async function* unitsOf(input: NodeJS.ReadableStream): AsyncGenerator<Unit> {
  let number = 0;
  let opened: { readonly lines: Buffer[]; readonly number: number; size: number } | undefined;
  for await (const served of linesOf(input)) {
    const line = number++ === 0 ? withoutMark(served) : served;
    if (opened !== undefined) {
      opened.lines.push(line);
      opened.size += line.length + 1;
      if (opened.size > ARRAY_BYTES_MAX)
        throw new UsageError(
          `The array has more than ${ARRAY_BYTES_MAX} bytes. Write one event per line, or convert it in parts.`,
        );
      continue;
    }
    if (isBlank(line)) continue;
    const text = line.toString("latin1").trim();
    if (text.startsWith("[") && !text.endsWith("]")) opened = { lines: [line], number, size: line.length };
    else yield { bytes: line, number };
  }
  if (opened !== undefined)
    yield { bytes: Buffer.concat(opened.lines.flatMap((line) => [line, BREAK])), number: opened.number };
}

/** Some editors and shells begin a file with this mark (U+FEFF), which is no part of its text. */
const BYTE_ORDER_MARK = Buffer.from("\ufeff");

function withoutMark(line: Buffer): Buffer {
  const { length } = BYTE_ORDER_MARK;
  return line.subarray(0, length).equals(BYTE_ORDER_MARK) ? line.subarray(length) : line;
}

const LINE_BYTES_MAX = 64 * 2 ** 20;
const ARRAY_BYTES_MAX = 512 * 2 ** 20;
const BREAK = Buffer.from("\n");

/** The lines of a stream as bytes, so that nothing is decoded on the way. A line over the limit is an error. */
async function* linesOf(input: NodeJS.ReadableStream): AsyncGenerator<Buffer> {
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  for await (const chunk of input) {
    const bytes = typeof chunk === "string" ? Buffer.from(chunk) : (chunk as Buffer);
    let from = 0;
    for (let at = bytes.indexOf(0x0a); at >= 0; at = bytes.indexOf(0x0a, from)) {
      yield Buffer.concat([...pending, bytes.subarray(from, at)]);
      pending = [];
      pendingBytes = 0;
      from = at + 1;
    }
    pending.push(bytes.subarray(from));
    pendingBytes += bytes.length - from;
    if (pendingBytes > LINE_BYTES_MAX) throw new Error(`A line is longer than ${LINE_BYTES_MAX} bytes.`);
  }
  if (pendingBytes > 0) yield Buffer.concat(pending);
}

function isBlank(line: Buffer): boolean {
  return line.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d);
}

/** Events that were not pulled by this program: their line is their page, and their own time the fetch time. */
function eventsOf(
  line: Buffer,
  number: number,
): { events: JournalEvent[]; isArray: boolean; undated: number } {
  const isArray = line.toString("latin1", 0, 64).trimStart().startsWith("[");
  const array = isArray ? line : Buffer.concat([Buffer.from("["), line, Buffer.from("]")]);
  const page = preparePage(array, { organizations: [], provider: "" });
  const { scanned } = page;
  if (scanned.count === 0) throw new Error("It holds no event.");
  if (!isArray && scanned.count !== 1) throw new Error(`It holds ${scanned.count} events instead of one.`);
  const nowMs = systemClock.now();
  const events = Array.from({ length: scanned.count }, (_, index): JournalEvent => {
    const dated = page.timesMs[index]!;
    const timestampMs = dated === UNDATED_MS ? nowMs : dated;
    return {
      bytes: eventBytes(scanned, index),
      size: eventSize(scanned, index),
      account: "",
      organization: page.organizations[page.organizationIndexes[index]!] ?? null,
      provider: null,
      service: fieldText(scanned, index, FIELD.service) ?? "",
      eventType: fieldText(scanned, index, FIELD.eventType) ?? "",
      timestamp: fieldText(scanned, index, FIELD.timestamp) ?? "",
      timestampMs,
      id: fieldText(scanned, index, FIELD.id),
      correlationId: fieldText(scanned, index, FIELD.correlationId),
      identity: page.identities.toString("hex", index * IDENTITY_BYTES, (index + 1) * IDENTITY_BYTES),
      fetchedAtMs: timestampMs,
      page: 0,
      index: isArray ? index : number - 1,
    };
  });
  return { events, isArray, undated: page.undated };
}
