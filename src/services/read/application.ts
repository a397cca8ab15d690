import { type Application, isFields, textLeaf } from "../../core/meaning.ts";
import type { Writable } from "./writable.ts";

/** Undefined for anything that identifies no application. */
export function application(value: unknown): Application | undefined {
  if (!isFields(value)) return undefined;
  const found: Writable<Application> = {};
  for (const key in value) {
    const held = value[key];
    switch (key) {
      case "id":
      case "name":
      case "version":
      case "path":
      case "publisher":
        found[key] = textLeaf(held, value, key);
        break;
      case "display_label":
        found.label = textLeaf(held, value, key);
        break;
      case "sso_url":
        found.url = textLeaf(held, value, key);
        break;
    }
  }
  return (found.id ?? found.name ?? found.label) === undefined ? undefined : found;
}
