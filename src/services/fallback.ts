import { z } from "zod";
import { text } from "../core/meaning.ts";
import { defineService } from "../core/service.ts";
import { authentication, common } from "./parts.ts";
import { named } from "./party.ts";

/**
 * Every service whose fields are not specified (asset_management, genai, aigw, ai_admin, generic_di and
 * whatever comes). They use the words of the others; what does not fit is leftover.
 */
export const fallback = defineService({
  name: "fallback",
  // Of the services without specified fields, only this one's event types are documented.
  eventTypes: [
    ...["enable", "disable", "general_settings_update"],
    ...["field_setting_create", "field_setting_update", "field_setting_delete"],
    ...["asset_create", "asset_update", "asset_delete"],
  ].map((name) => `asset_management_${name}`),
  event: z.looseObject({}),
  describe(event) {
    const meaning = common(event);
    const subject = named(event, meaning.actor);
    return {
      ...meaning,
      actor: meaning.actor ?? subject,
      subject,
      authentication: authentication(event, undefined),
      message: meaning.message ?? text(event, "detail"),
      risk: text(event, "severity"),
      category: text(event, "category"),
    };
  },
});
