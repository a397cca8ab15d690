import { z } from "zod";
import { text } from "../core/meaning.ts";
import { defineService } from "../core/service.ts";
import { authentication } from "./read/authentication.ts";
import { common } from "./read/common.ts";
import { named } from "./read/party.ts";

/**
 * Every service whose fields are not specified: asset_management, genai, aigw, ai_admin, generic_di and those
 * to come. Their events use the field names of the others; the rest is leftover.
 */
export const fallback = defineService({
  name: "fallback",
  eventTypes: [
    ...[
      ...["enable", "disable", "general_settings_update"],
      ...["field_setting_create", "field_setting_update", "field_setting_delete"],
      ...["asset_create", "asset_update", "asset_delete"],
    ].map((name) => `asset_management_${name}`),
    ...["aigw_session_opened", "aigw_session_activity", "aigw_session_closed"],
    ...["created", "updated", "deleted", "message_sent"].map((name) => `genai_ai_assistant_chat_${name}`),
  ],
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
