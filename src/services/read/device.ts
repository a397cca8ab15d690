import { type Device, isFields, textLeaf } from "../../core/meaning.ts";
import type { Writable } from "./writable.ts";

/** Undefined for anything that identifies no device. */
export function device(value: unknown): Device | undefined {
  if (!isFields(value)) return undefined;
  const found: Writable<Device> = {};
  for (const key in value) {
    const held = value[key];
    switch (key) {
      case "id":
        found.id = textLeaf(held, value, key);
        break;
      case "hostname":
        found.hostname = textLeaf(held, value, key);
        break;
      case "displayName":
        found.name = textLeaf(held, value, key);
        break;
      case "os":
        found.os = textLeaf(held, value, key);
        break;
      case "version":
        found.osVersion = textLeaf(held, value, key);
        break;
    }
  }
  return (found.id ?? found.hostname ?? found.name) === undefined ? undefined : found;
}

/** The device that a login context names: only a managed device identifies itself there. */
export function managedDevice(context: unknown): Device | undefined {
  const found = isFields(context) ? device(context.system) : undefined;
  return found && { ...found, managed: true };
}
