import { z } from "zod";
import { text } from "../core/meaning.ts";
import { defineService } from "../core/service.ts";
import { anyText, eventBase, userAgent } from "./event-schema.ts";
import { common } from "./read/common.ts";

/** Reports that were defined, run and exported. */
export const reports = defineService({
  name: "reports",
  eventTypes: [
    ...["report_run", "report_export", "report_create", "report_update", "report_delete"],
    ...["custom_report_create", "custom_report_update", "custom_report_delete"],
    ...["scheduled_report_create", "scheduled_report_update", "scheduled_report_delete"],
    ...["scheduled_report_run_success", "scheduled_report_run_failed"],
  ],
  event: z.looseObject({
    ...eventBase,
    resource: z
      .looseObject({
        name: anyText.optional(),
        id: anyText.optional(),
        description: anyText.optional(),
        resources: z.array(z.unknown()).optional(),
        search_request: z.unknown().optional(),
        configuration: z.unknown().optional(),
      })
      .optional(),
    auth_method: anyText.optional(),
    user_agent: userAgent.optional(),
  }),
  describe(event) {
    const meaning = common(event);
    const id = text(event.resource, "id");
    const name = text(event.resource, "name");
    return {
      ...meaning,
      item: id || name ? { id, name, description: text(event.resource, "description") } : undefined,
    };
  },
});
