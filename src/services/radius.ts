import { z } from "zod";
import { defineService } from "../core/service.ts";
import { anyText, eventBase, mfaMeta } from "./event-schema.ts";
import { authentication } from "./read/authentication.ts";
import { common } from "./read/common.ts";
import { isSameParty, named } from "./read/party.ts";

/** Logins to networks through RADIUS. */
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
      actor: subject === meaning.actor || isSameParty(subject, meaning.actor) ? undefined : meaning.actor,
      authentication: authentication(event, undefined, { protocol: "radius" }),
    };
  },
});
