import { Readable, Writable } from "node:stream";
import { finished } from "node:stream/promises";
import { Command } from "commander";
import { expect, test } from "vitest";
import { registerConvert } from "../../src/commands/convert.ts";
import { UsageError } from "../../src/core/errors.ts";

/** Runs the command in this process, with its own streams. */
async function convert(input: string | readonly Buffer[], ...argv: string[]) {
  const out: Buffer[] = [];
  const errors: Buffer[] = [];
  const into = (list: Buffer[]) =>
    new Writable({
      highWaterMark: 16,
      write: (chunk: Buffer, _encoding, done) => {
        list.push(chunk);
        setImmediate(done);
      },
    });
  const stdout = into(out);
  const stderr = into(errors);
  let exitCode = 0;
  const program = new Command().exitOverride();
  registerConvert(program, {
    stdin: Readable.from(typeof input === "string" ? [Buffer.from(input)] : input),
    stdout,
    stderr,
    env: {},
    signal: new AbortController().signal,
    interactive: false,
    setExitCode: (code) => {
      exitCode = code;
    },
  });
  await program.parseAsync(["convert", ...argv], { from: "user" });
  await Promise.all([finished(stdout.end()), finished(stderr.end())]);
  return { out: Buffer.concat(out), errors: Buffer.concat(errors).toString(), exitCode };
}

const LINE =
  '{"event_type":"user_create","service":"directory","timestamp":"2026-11-14T10:00:00Z","resource":{"id":"r","type":"user"}}';

test("converts each line, passes over blank ones, and ends well", async () => {
  const { out, errors, exitCode } = await convert(`${LINE}\n\n  \r\n${LINE}\r\n${LINE}`, "--format", "ocsf");
  const lines = out.toString().trimEnd().split("\n");
  expect(lines.map((line) => (JSON.parse(line) as { class_uid: number }).class_uid)).toEqual([
    3001, 3001, 3001,
  ]);
  expect(errors).toBe("");
  expect(exitCode).toBe(0);
});

test("a byte order mark at the beginning is no part of the first event or array", async () => {
  for (const input of [`\ufeff${LINE}\n`, `\ufeff[\n${LINE}\n]\n`]) {
    const { out, errors, exitCode } = await convert(input, "--format", "raw");
    expect({ out: out.toString(), errors, exitCode }).toEqual({ out: `${LINE}\n`, errors: "", exitCode: 0 });
  }
});

test("reports lines that hold no event by their number, converts the rest, and ends with 1", async () => {
  const input = `${LINE}\nnot json\n{"a":1},{"b":2}\n[]\n${LINE}\n`;
  const { out, errors, exitCode } = await convert(input, "--format", "cef");
  expect(out.toString().match(/^CEF:0/gm)?.length).toBe(2);
  expect(errors.match(/^Line \d+ was not converted: /gm)).toEqual(
    [2, 3, 4].map((number) => `Line ${number} was not converted: `),
  );
  expect(exitCode).toBe(1);
});

test("raw gives every byte back, whatever the chunks it came in, and also bytes that are no UTF-8", async () => {
  const bytes = Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xff, 0xfe]), Buffer.from('€"}\n')]);
  const { out } = await convert(
    [...bytes].map((byte) => Buffer.from([byte])),
    "--format",
    "raw",
  );
  expect(out.equals(bytes)).toBe(true);
});

test("takes the options of a format as flags", async () => {
  const { out } = await convert(LINE, "--format", "ocsf", "--raw-data");
  expect((JSON.parse(out.toString()) as { raw_data: string }).raw_data).toBe(LINE);
  const ecs = await convert(LINE, "--format", "ecs", "--namespace", "acme", "--original", "true");
  expect(JSON.parse(ecs.out.toString())).toMatchObject({ acme: { event: {} }, event: { original: LINE } });
});

test("an unknown format or an option that is not the format's is wrong usage, and says what there is", async () => {
  await expect(convert(LINE, "--format", "xml")).rejects.toThrow(/use raw, envelope, ocsf, ecs, cef, leef/);
  await expect(convert(LINE, "--format", "cef", "--raw-data")).rejects.toBeInstanceOf(UsageError);
  await expect(convert(LINE, "--format", "ecs", "--namespace", "Not One")).rejects.toThrow(/namespace/);
});

const FIRST = LINE.replace('"r"', '"first"');
const ARRAY = [FIRST, LINE, LINE].map((line) => JSON.parse(line) as object);

test("takes the array that the API returns, on one line or over many", async () => {
  for (const input of [
    JSON.stringify(ARRAY),
    JSON.stringify(ARRAY, null, 2),
    ` \n${JSON.stringify(ARRAY, null, 1)}\n`,
  ]) {
    const { out, exitCode } = await convert(input, "--format", "ocsf");
    const uids = out.toString().trimEnd().split("\n");
    expect(uids.map((line) => (JSON.parse(line) as { user: { uid: string } }).user.uid)).toEqual([
      "first",
      "r",
      "r",
    ]);
    expect(exitCode).toBe(0);
  }
});

test("events of an array keep their bytes in raw, less the line breaks", async () => {
  const { out } = await convert(`[\n  ${FIRST},\n  ${LINE}\n]\n`, "--format", "raw");
  expect(out.toString()).toBe(`${FIRST}\n${LINE}\n`);
});

test("an array that is cut off is reported by the line where it begins", async () => {
  const { errors, exitCode } = await convert(`\n[\n${LINE},\n${LINE}`, "--format", "cef");
  expect(errors).toMatch(/^Line 2 was not converted: /);
  expect(exitCode).toBe(1);
});

test("a timestamp may be a number; without one the time of conversion is written, and said", async () => {
  const timeOf = async (timestamp: unknown) => {
    const { out, errors } = await convert(JSON.stringify({ ...ARRAY[0], timestamp }), "--format", "ocsf");
    return { time: (JSON.parse(out.toString()) as { time: number }).time, errors };
  };
  const at = Date.parse("2026-11-14T10:00:00Z");
  expect(await timeOf("2026-11-14T10:00:00Z")).toEqual({ time: at, errors: "" });
  expect(await timeOf(at)).toEqual({ time: at, errors: "" });
  expect(await timeOf(at / 1000)).toEqual({ time: at, errors: "" });
  for (const timestamp of [undefined, null, "soon", {}]) {
    const beforeMs = Date.now();
    const { time, errors } = await timeOf(timestamp);
    expect(time).toBeGreaterThanOrEqual(beforeMs);
    expect(errors).toMatch(/^1 events? ha(s|ve) no readable timestamp/);
  }
});

test("an event of more than 4 MB is reported as a running sink does it, and the others are converted", async () => {
  const large = LINE.replace('"r"', `"${"x".repeat(4 << 20)}"`);
  const refused = `was not converted: its ${large.length} bytes are more than the 4194304 that Tidemark converts. The format raw takes it as it is\n`;
  const lines = await convert(`${LINE}\n${large}\n${LINE}\n`, "--format", "ocsf");
  expect(lines.out.toString().match(/"class_uid":3001/g)).toHaveLength(2);
  expect(lines).toMatchObject({ errors: `Line 2 ${refused}`, exitCode: 1 });
  const array = await convert(`[${LINE},${large},${LINE}]`, "--format", "ecs");
  expect(array.out.toString().trimEnd().split("\n")).toHaveLength(2);
  expect(array).toMatchObject({ errors: `Line 1, event 2 ${refused}`, exitCode: 1 });
  const raw = await convert(`${large}\n`, "--format", "raw");
  expect(raw).toMatchObject({ errors: "", exitCode: 0 });
  expect(raw.out.toString()).toBe(`${large}\n`);
});
