import fc from "fast-check";
import { expect, test } from "vitest";
import { leef } from "../../src/formats/leef.ts";
import { describe } from "../../src/services/index.ts";
import { runs } from "../support/runs.ts";
import { journalEvent } from "./event.ts";
import { readLeef as parse } from "./leef-reader.ts";

const format = leef.create({}, { describe });

const hostile = fc.oneof(
  fc.string({ unit: "binary", maxLength: 60 }),
  fc
    .array(fc.constantFrom("|", "=", "\\", "\n", "\r", "\t", " ", "a", "\tsrc=", "LEEF:2.0|", "\u2028"), {
      maxLength: 20,
    })
    .map((parts) => parts.join("")),
);

/** LEEF has no escapes: control characters become spaces. */
function kept(value: string, max: number): string {
  return [...value]
    .slice(0, max)
    .join("")
    .replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, " ");
}

test("no value can break out of its attribute or its line, and a parser gets every value back", () => {
  fc.assert(
    fc.property(hostile, hostile, hostile, hostile, (type, user, target, reason) => {
      const line = format.encode(
        journalEvent({
          event_type: type,
          service: "directory",
          timestamp: "2026-11-14T10:00:00Z",
          initiated_by: { username: user, id: "u1", type: "admin" },
          resource: { id: "r1", name: target, type: reason },
          association: { id: "u2", username: target, type: "user" },
          error_message: reason,
          client_ip: "2001:db8::1",
          success: false,
        }),
      ) as string;
      expect(line).not.toMatch(/[\r\n\u0085\u2028\u2029\u000b\u000c]/);
      const { header, attributes } = parse(line);
      const id = kept(type, 255).replaceAll("|", " ") || "unknown";
      expect(header).toEqual(["LEEF:2.0", "JumpCloud", "Directory Insights", "1", id, "x09"]);
      const expected: [string, string, number][] = [
        ["usrName", user, 255],
        ["usrId", "u1", 4000],
        ["accountName", target, 255],
        ["resource", target, 4000],
        ["reason", reason, 4000],
        ["targetType", reason, 4000],
      ];
      for (const [key, value, max] of expected)
        expect(attributes.get(key), key).toBe(value === "" ? undefined : kept(value, max));
      expect(attributes.get("src")).toBe("2001:db8::1");
      expect(attributes.get("sev")).toBe("3");
      expect(attributes.get("role")).toBe("admin");
    }),
    { numRuns: runs(200) },
  );
});

test("time is in epoch milliseconds, and a login says that it is one", () => {
  const login = { event_type: "user_login_attempt", service: "directory", initiated_by: { username: "jo" } };
  const { attributes } = parse(
    format.encode(journalEvent({ ...login, timestamp: "2026-11-14T10:00:00.1239Z" })) as string,
  );
  expect(attributes.get("devTime")).toBe(String(Date.parse("2026-11-14T10:00:00.123Z")));
  expect(attributes.get("isLoginEvent")).toBe("true");
});
