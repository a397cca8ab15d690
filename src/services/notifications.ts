import { z } from "zod";
import { text } from "../core/meaning.ts";
import { defineService } from "../core/service.ts";
import { anyText, correlation, eventBase } from "./event-schema.ts";
import { common } from "./read/common.ts";

/** The channels by which administrators are notified. */
export const notifications = defineService({
  name: "notifications",
  eventTypes: [
    "notification_channel_created",
    "notification_channel_updated",
    "notification_channel_deleted",
  ],
  event: z.looseObject({
    ...eventBase,
    name: anyText.optional(),
    type: anyText.optional(),
    description: anyText.optional(),
    channel_object_id: anyText.optional(),
    correlation: correlation.optional(),
    config: z.array(z.looseObject({})).nullable().optional(),
  }),
  describe(event) {
    const meaning = common(event);
    const id = text(event, "channel_object_id");
    const name = text(event, "name");
    const channel = id || name ? { kind: "other" as const, id, name, type: text(event, "type") } : undefined;
    return {
      ...meaning,
      target: meaning.target ?? channel,
      message: meaning.message ?? text(event, "description"),
    };
  },
});
