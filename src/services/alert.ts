import { z } from "zod";
import { text, wordOf } from "../core/meaning.ts";
import { defineService } from "../core/service.ts";
import { anyText, correlation, eventBase } from "./event-schema.ts";
import { common } from "./read/common.ts";
import { named } from "./read/party.ts";

/** Alerts and the rules that raise them. Requests call the service `alert`, events call it `alerts`. */
export const alert = defineService({
  name: "alert",
  aliases: ["alerts"],
  eventTypes: [
    "alert_created",
    "alert_updated",
    "alert_status_updated",
    "rule_created",
    "rule_modified",
    "rule_deleted",
  ],
  event: z.looseObject({
    ...eventBase,
    correlation: correlation.optional(),
    category: anyText.optional(),
    severity: anyText.optional(),
    username: anyText.optional(),
    resource: z
      .looseObject({
        id: anyText.optional(),
        context: z.unknown().optional(),
        source_id: anyText.optional(),
        source_type: anyText.optional(),
        reference_id: anyText.optional(),
      })
      .optional(),
  }),
  describe(event) {
    const meaning = common(event);
    return {
      ...meaning,
      actor: named(event, meaning.actor),
      device: meaning.device ?? alertedDevice(event.resource),
      risk: text(event, "severity"),
      category: text(event, "category"),
    };
  },
});

function alertedDevice(resource: unknown) {
  const type = wordOf(text(resource, "source_type"));
  const id = type === "device" || type === "system" ? text(resource, "source_id") : undefined;
  return id && { id };
}
