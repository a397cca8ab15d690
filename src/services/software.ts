import { z } from "zod";
import { defineService } from "../core/service.ts";
import { anyText, eventBase, system } from "./event-schema.ts";
import { common } from "./read/common.ts";
import { device } from "./read/device.ts";

/** Software on managed systems: found, changed, removed and requested. */
export const software = defineService({
  name: "software",
  eventTypes: [
    "software_add",
    "software_change",
    "software_remove",
    "software_add_request",
    "software_change_request",
    "software_remove_request",
    "software_status_update",
  ],
  event: z.looseObject({
    ...eventBase,
    system: system.optional(),
    application: z
      .looseObject({
        name: anyText.optional(),
        version: anyText.optional(),
        path: anyText.optional(),
        publisher: anyText.optional(),
        uninstall_string: anyText.optional(),
      })
      .optional(),
    resource: z.looseObject({ id: anyText.optional(), type: anyText.optional() }).optional(),
    app_management_source: anyText.optional(),
  }),
  describe(event) {
    const meaning = common(event);
    const onSystem = meaning.target?.kind === "device" ? device(event.resource) : undefined;
    return { ...meaning, device: meaning.device ?? onSystem };
  },
});
