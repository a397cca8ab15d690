import { z } from "zod";
import { type Fields, type Party, text } from "../core/meaning.ts";
import { defineService } from "../core/service.ts";
import { anyText, eventBase } from "./event-schema.ts";
import { common } from "./read/common.ts";
import { named } from "./read/party.ts";

const PREFIX = "saas_management_";

/** Applications outside the directory that people use: discovered, reviewed, logged in to. */
export const saasAppManagement = defineService({
  name: "saas_app_management",
  aliases: ["saas_management"],
  eventTypes: [
    ...["enable", "disable", "settings_update", "application_discover", "event_application_review"],
    ...["application_update", "application_access_restriction_update", "application_license_update"],
    ...["application_delete", "connector_create", "connector_update", "connector_delete"],
    ...["account_discover", "account_user_assign", "account_delete", "tenant_discover", "login_event"],
  ].map((name) => PREFIX + name),
  event: z.looseObject({
    ...eventBase,
    username: anyText.optional(),
    resource: z
      .looseObject({
        application_id: anyText.optional(),
        application_name: anyText.optional(),
        application_category: anyText.optional(),
      })
      .optional(),
    account_id: anyText.optional(),
    catalog_app_id: anyText.optional(),
    login_identifier: anyText.optional(),
    detail: anyText.optional(),
  }),
  describe(event) {
    const meaning = common(event);
    const id = text(event.resource, "application_id") ?? text(event, "catalog_app_id");
    const name = text(event.resource, "application_name");
    const application = id || name ? { id, name } : meaning.application;
    return {
      ...meaning,
      application,
      actor: named(event, meaning.actor),
      subject: whoLoggedIn(event, meaning.actor),
      target: meaning.target ?? (application && { kind: "application", ...application }),
      category: text(event.resource, "application_category"),
      message: meaning.message ?? text(event, "detail"),
    };
  },
});

function whoLoggedIn(event: Fields, actor: Party | undefined): Party | undefined {
  const name = text(event, "username") ?? text(event, "login_identifier");
  if (name === undefined) return actor;
  const known = named(event, actor, name.key);
  return { ...known, kind: "user", name, id: text(event, "account_id") ?? known?.id };
}
