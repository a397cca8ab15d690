import { z } from "zod";
import { defineService } from "../core/service.ts";
import { anyText, eventBase, mfaMeta } from "./fields.ts";
import { authentication, common } from "./parts.ts";
import { named } from "./party.ts";

/** Logins to networks, by way of RADIUS. */
export const radius = defineService({
  name: "radius",
  eventTypes: ["radius_auth", "radius_auth_attempt"],
  event: z.looseObject({
    ...eventBase,
    nas_mfa_state: anyText.optional(),
    auth_type: anyText.optional(),
    eap_type: anyText.optional(),
    username: anyText.optional(),
    mfa: z.boolean().optional(),
    mfa_meta: mfaMeta.optional(),
    outer: z
      .looseObject({
        eap_type: anyText.nullable().optional(),
        error_message: anyText.nullable().optional(),
        username: anyText.nullable().optional(),
      })
      .optional(),
  }),
  describe(event) {
    const meaning = common(event);
    const subject = named(event, meaning.actor);
    return {
      ...meaning,
      subject,
      actor: subject === meaning.actor || subject?.id === meaning.actor?.id ? undefined : meaning.actor,
      authentication: authentication(event, undefined, { protocol: "radius" }),
    };
  },
});
