import { once } from "node:events";
import type { Command } from "commander";
import { z } from "zod";
import { explain, UsageError } from "../core/errors.ts";
import type { JournalEvent } from "../core/event.ts";
import type { Format, FormatDefinition } from "../core/format.ts";
import { IDENTITY_BYTES, preparePage } from "../core/prepare-page.ts";
import { eventBytes, eventSize, FIELD, fieldText } from "../core/scanner.ts";
import { formats } from "../formats/index.ts";
import { describe } from "../services/index.ts";
import type { Io } from "./io.ts";

/** `tidemark convert`: events from stdin, one a line, written in another format to stdout. */
export function registerConvert(program: Command, io: Io): void {
  const command = program
    .command("convert")
    .summary("write events in another format")
    .description("Write events from stdin, one JSON object a line, in another format to stdout.")
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
  return definition.create(parsed.data, { describe });
}

/** A flag without a value is true. */
function given(flag: string | true): string | boolean {
  if (flag === "true" || flag === "false") return flag === "true";
  return flag;
}

/** Converts line by line; lines that hold no event are reported and passed over. Returns how many those were. */
async function convertLines(format: Format, io: Io): Promise<number> {
  let number = 0;
  let failures = 0;
  for await (const line of linesOf(io.stdin)) {
    if (io.signal.aborted) break;
    number++;
    if (isBlank(line)) continue;
    try {
      const body = format.encode(eventOf(line, number));
      io.stdout.write(typeof body === "string" ? body : Buffer.from(body));
    } catch (error) {
      failures++;
      io.stderr.write(`Line ${number} was not converted: ${explain(error)}\n`);
      continue;
    }
    if (!io.stdout.write("\n")) await once(io.stdout, "drain", { signal: io.signal });
  }
  return failures;
}

const LINE_BYTES_MAX = 64 * 2 ** 20;

/** The lines of a stream as bytes, so that nothing is decoded on the way. A line over the limit ends it all. */
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

/** An event that was not pulled by this program: its line is its page, and its own time the time of fetching. */
function eventOf(line: Buffer, number: number): JournalEvent {
  const array = Buffer.concat([Buffer.from("["), line, Buffer.from("]")]);
  const page = preparePage(array, { organizations: [], provider: "" });
  const { scanned } = page;
  if (scanned.count !== 1) throw new Error(`It holds ${scanned.count} events instead of one.`);
  const timestampMs = page.timesMs[0]!;
  return {
    bytes: eventBytes(scanned, 0),
    size: eventSize(scanned, 0),
    account: "",
    organization: page.organizations[0] ?? null,
    provider: null,
    service: fieldText(scanned, 0, FIELD.service) ?? "",
    eventType: fieldText(scanned, 0, FIELD.eventType) ?? "",
    timestamp: fieldText(scanned, 0, FIELD.timestamp) ?? "",
    timestampMs,
    id: fieldText(scanned, 0, FIELD.id),
    correlationId: fieldText(scanned, 0, FIELD.correlationId),
    identity: page.identities.toString("hex", 0, IDENTITY_BYTES),
    fetchedAtMs: timestampMs,
    page: 0,
    index: number - 1,
  };
}
