import { z } from "zod";
import { text } from "../core/meaning.ts";
import { defineService } from "../core/service.ts";
import { anyText, correlation, eventBase } from "./fields.ts";
import { common } from "./parts.ts";
import { named } from "./party.ts";

/** Alerts and the rules that raise them. The request calls the service `alert`, its events `alerts`. */
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
  const type = text(resource, "source_type")?.value.toLowerCase();
  const id = type === "device" || type === "system" ? text(resource, "source_id") : undefined;
  return id && { id };
}
