import { type Fields, isFields, text, textLeaf, type UserAgent } from "../../core/meaning.ts";

/** The header's text, or an object, which may be nested under its own name. */
export function userAgentOf(value: unknown, event: Fields, key: string): UserAgent | undefined {
  if (!isFields(value)) {
    const original = textLeaf(value, event, key);
    return original && { original };
  }
  const flat = isFields(value[key]) ? (value[key] as Fields) : value;
  return {
    name: text(flat, "name"),
    version: text(flat, "version") ?? text(flat, "major"),
    osName: text(flat, "os_name") ?? text(flat, "os"),
    osVersion: text(flat, "os_version") ?? text(flat, "os_major"),
    osFull: text(flat, "os_full"),
    deviceName: text(flat, "device"),
  };
}
