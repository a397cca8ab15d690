import fc from "fast-check";
import { expect, test } from "vitest";
import { cef } from "../../src/formats/cef.ts";
import { describe } from "../../src/services/index.ts";
import { runs } from "../support/runs.ts";
import { readCef as parse } from "./cef-reader.ts";
import { journalEvent } from "./event.ts";
import { reference, referencePresent } from "./reference.ts";

const format = cef.create({}, { describe });

/** Text that tries to break out: the format's own characters, line breaks, and whatever Unicode has. */
const hostile = fc.oneof(
  fc.string({ unit: "binary", maxLength: 60 }),
  fc
    .array(
      fc.constantFrom("|", "=", "\\", "\n", "\r", " ", "\t", "a", "src=", " act=x", "CEF:0|", "\u2028", "😀"),
      {
        maxLength: 20,
      },
    )
    .map((parts) => parts.join("")),
);

/** A value in its written form: cut to its length in code points, control characters as spaces. */
function kept(value: string, max: number): string {
  return [...value]
    .slice(0, max)
    .join("")
    .replace(/[\u0000-\u0009\u000b\u000c\u000e-\u001f\u007f-\u009f\u2028\u2029]/g, " ");
}

test("no value can break out of its field or its line, and a parser gets every value back", () => {
  fc.assert(
    fc.property(hostile, hostile, hostile, hostile, hostile, (type, user, target, reason, agent) => {
      const line = format.encode(
        journalEvent({
          event_type: type,
          service: "directory",
          timestamp: "2026-11-14T10:00:00Z",
          initiated_by: { username: user, id: "u1" },
          resource: { id: "r1", name: target, type: reason },
          association: { id: "u2", username: target, type: "user" },
          error_message: reason,
          useragent: agent,
          message: user,
          client_ip: "10.0.0.1",
          success: false,
        }),
      ) as string;
      expect(line).not.toMatch(/[\r\n\u0085\u2028\u2029\u000b\u000c]/);
      const { header, extension } = parse(line);
      const oneLine = (text: string) => kept(text, 512).replace(/[\r\n]+/g, " ");
      expect(header.slice(0, 5)).toEqual([
        "CEF:0",
        "JumpCloud",
        "Directory Insights",
        "1",
        oneLine(type) || "unknown",
      ]);
      const expected: [string, string, number][] = [
        ["act", type, 63],
        ["suser", user, 1023],
        ["suid", "u1", 1023],
        ["duser", target, 1023],
        ["reportedResourceName", target, 64],
        ["reportedResourceType", reason, 64],
        ["reason", reason, 1023],
        ["cs4", reason, 4000],
        ["msg", user, 1023],
        ["requestClientApplication", agent, 1023],
      ];
      for (const [key, value, max] of expected)
        expect(extension.get(key), key).toBe(value === "" ? undefined : kept(value, max));
      expect(extension.get("src")).toBe("10.0.0.1");
      expect(extension.get("outcome")).toBe("failure");
    }),
    { numRuns: runs(200) },
  );
});

test("values are cut on code points", () => {
  const { extension } = parse(format.encode(journalEvent({ event_type: "😀".repeat(100) })) as string);
  expect(extension.get("act")).toBe("😀".repeat(63));
});

test("an IPv6 address goes to its own key, with a label, and what is no address is left out", () => {
  const of = (client_ip: string) =>
    parse(format.encode(journalEvent({ event_type: "a", client_ip })) as string);
  expect(of("2001:db8::1").extension.get("c6a2")).toBe("2001:db8::1");
  expect(of("2001:db8::1").extension.get("c6a2Label")).toBe("Source IPv6 Address");
  expect(of("2001:db8::1").extension.has("src")).toBe(false);
  expect(of("10.1").extension.has("src")).toBe(false);
});

test("an id that is longer than its key allows gives way to the identity", () => {
  const event = journalEvent({ id: "x".repeat(41), event_type: "a" });
  expect(parse(format.encode(event) as string).extension.get("externalId")).toBe(event.identity);
});

test.skipIf(!referencePresent)(
  "keys and their lengths are those of the standard (needs ../shared/data)",
  () => {
    interface Extensions {
      extensions: Record<string, { length?: number; audience: string }>;
    }
    const { extensions } = reference<Extensions>("cef-extensions.json");
    const long = "x".repeat(5000);
    const event = journalEvent({
      ...{ id: "i", event_type: long, service: long, timestamp: "2026-11-14T10:00:00Z", organization: long },
      initiated_by: { id: long, username: long },
      resource: { id: long, name: long, type: long },
      ...{
        system: { id: long, hostname: long },
        application: { name: long },
        useragent: long,
        message: long,
      },
      ...{
        error_message: long,
        correlation: { id: long },
        changes: [{ field: long }],
        association: { type: "user", id: long, username: long },
        geoip: { country_code: long },
        mfa: true,
        client_ip: "10.0.0.1",
      },
    });
    const { extension } = parse(format.encode(event) as string);
    expect(extension.size).toBeGreaterThan(15);
    for (const [key, value] of extension) {
      expect(extensions[key]?.audience, key).toMatch(/^(producer|both)$/);
      expect([...value].length, key).toBeLessThanOrEqual(extensions[key]?.length ?? 100);
    }
  },
);
