import { hash } from "node:crypto";
import type { JournalEvent } from "./event.ts";

/**
 * Names made from event data (paths, topics, keys; R22): encoded one to one into a safe alphabet, so two
 * tenants never share a name. Letters, digits, `-` and `.` inside stand for themselves; every other byte,
 * capital letters on behalf of file systems that ignore case, and a leading `.` become `_` and two
 * hexadecimal digits. An absent value is `_none`, which nothing else can encode to. Over-long names keep
 * their beginning and end in a hash.
 */
export function encodeName(value: string | null | undefined, lengthMax = 100): string {
  if (value === null || value === undefined || value === "") return "_none";
  let name = "";
  for (const byte of Buffer.from(value, "utf8")) {
    const plain =
      (byte >= 0x61 && byte <= 0x7a) ||
      (byte >= 0x30 && byte <= 0x39) ||
      byte === 0x2d ||
      (byte === 0x2e && name !== "");
    name += plain ? String.fromCharCode(byte) : `_${byte.toString(16).padStart(2, "0")}`;
    if (name.length > 4 * lengthMax) break;
  }
  // The usual names (snake_case services and types) stay readable: an underscore doubles.
  name = name.replaceAll("_5f", "__");
  if (name.length <= lengthMax) return name;
  const digest = hash("sha256", value, "hex").slice(0, 32);
  return `${name.slice(0, lengthMax - 34)}_~${digest}`;
}

const PLACEHOLDERS = ["account", "organization", "service", "event_type", "date", "hour"] as const;
export type Placeholder = (typeof PLACEHOLDERS)[number];

/** Compiles a template such as `{organization}/{service}/{date}`; unknown placeholders are an error. */
export function compileTemplate(template: string, allowed: readonly Placeholder[] = PLACEHOLDERS) {
  const parts = template.split(/\{([^}]*)\}/);
  for (let at = 1; at < parts.length; at += 2) {
    if (!allowed.includes(parts[at] as Placeholder)) {
      throw new Error(
        `the placeholder {${parts[at]}} is not known: use ${allowed.map((name) => `{${name}}`).join(", ")}`,
      );
    }
  }
  return (event: JournalEvent): string => {
    let text = parts[0]!;
    for (let at = 1; at < parts.length; at += 2) {
      text += placeholderValue(parts[at] as Placeholder, event) + parts[at + 1]!;
    }
    return text;
  };
}

function placeholderValue(name: Placeholder, event: JournalEvent): string {
  switch (name) {
    case "account":
      return encodeName(event.account);
    case "organization":
      return encodeName(event.organization);
    case "service":
      return encodeName(event.service);
    case "event_type":
      return encodeName(event.eventType);
    case "date":
      return new Date(event.timestampMs).toISOString().slice(0, 10);
    case "hour":
      return new Date(event.timestampMs).toISOString().slice(11, 13);
  }
}
