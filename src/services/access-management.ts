import { z } from "zod";
import { type Party, text } from "../core/meaning.ts";
import { defineService } from "../core/service.ts";
import { anyText, association, eventBase, userAgent } from "./event-schema.ts";
import { common } from "./read/common.ts";
import { party } from "./read/party.ts";

const PREFIX = "access_management_";

/** Requests for access, their approval, and the flows that govern them. */
export const accessManagement = defineService({
  name: "access_management",
  eventTypes: [
    ...["access_request", "access_request_approval", "access_request_settings_update"],
    ...["association_change", "approval_flow_create", "approval_flow_update", "approval_flow_delete"],
  ].map((name) => PREFIX + name),
  event: z.looseObject({
    ...eventBase,
    pid: anyText.optional(),
    access_request_id: anyText.optional(),
    resource: z
      .looseObject({ type: anyText.optional(), id: anyText.optional(), name: anyText.optional() })
      .optional(),
    workflow: z
      .looseObject({
        type: anyText.optional(),
        id: anyText.optional(),
        name: anyText.optional(),
        desc: anyText.optional(),
      })
      .optional(),
    association: association.optional(),
    user_agent: userAgent.optional(),
  }),
  describe(event) {
    const meaning = common(event);
    const id = text(event, "access_request_id");
    const request: Party | undefined = id && { kind: "other", id };
    // The request itself is created and approved, whatever it asks for.
    const isRequest = /_access_request(_approval)?$/.test(String(event.event_type));
    const named = meaning.target ?? party(event.workflow);
    return { ...meaning, target: isRequest ? (request ?? named) : (named ?? request) };
  },
});
