import { z } from "zod";
import { type Fields, isFields, type Party, text } from "../core/meaning.ts";
import { defineService } from "../core/service.ts";
import {
  anyText,
  association,
  correlation,
  eventBase,
  factor,
  mfaMeta,
  schemaVersion,
  system,
  userAgent,
} from "./fields.ts";
import { application, authentication, common, device } from "./parts.ts";
import { named, party } from "./party.ts";

/** Users, groups, policies, integrations and console logins; also the events of a provider's own portal. */
export const directory = defineService({
  name: "directory",
  eventTypes: [
    ...verbs("application authnpolicy command file group iplist policy radiusserver", "create delete update"),
    ...verbs("gsuite_directory idsource o365_directory sambadomain system workday", "create delete update"),
    ...verbs("activedirectory integration_domain user_activation_schedule", "create delete"),
    ...verbs("user_suspension_schedule", "create delete"),
    ...verbs("autotask connectwise syncro", "settings_update"),
    ...verbs(
      "autotask_billing_mapping autotask_company_mapping autotask_integration",
      "create delete update",
    ),
    ...verbs(
      "connectwise_billing_mapping connectwise_company_mapping connectwise_integration",
      "create delete update",
    ),
    ...verbs("syncro_billing_mapping syncro_company_mapping syncro_integration", "create delete update"),
    ...verbs("integration_default_domain", "add delete update"),
    ...verbs("admin user", "create delete update lockout login_attempt password_change suspended"),
    ...verbs("admin user", "password_reset_request"),
    ...verbs("user", "activated activation_email admin_granted admin_revoked create_provision"),
    ...verbs("user", "delete_provision update_provision mfa_exclusion_expired password_expired"),
    ...verbs("user", "password_set password_warning_email unlocked unsuspended"),
    ...verbs("user_group_admin", "grant revoke"),
    ...verbs("admin_totp", "start_enrollment finish_enrollment disable"),
    ...verbs("totp", "start_enrollment finish_enrollment delete_enrollment"),
    ...verbs("integration", "activate deactivate domain_add"),
    ...verbs("integrationattribute", "include exclude"),
    ...verbs("organization", "create update"),
    "admin_unsuspend",
    "association_change",
    "authpolicy_update",
    "command_run",
    "commandresult_delete",
    "invoice_download",
    "msp_ticket_create",
    "mtp_download_invoice",
    "notification_delete",
    "provider_update",
    "systemuser_update",
  ],
  event: z.looseObject({
    ...eventBase,
    correlation: correlation.optional(),
    resource: z
      .looseObject({
        type: anyText.optional(),
        id: anyText.optional(),
        username: anyText.optional(),
        name: anyText.optional(),
        email: anyText.optional(),
        recipient_email: anyText.optional(),
        email_type: anyText.optional(),
      })
      .optional(),
    system_group: z
      .looseObject({ type: anyText.optional(), object_id: anyText.optional(), name: anyText.optional() })
      .optional(),
    association: association.optional(),
    useragent: userAgent.optional(),
    auth_method: anyText.optional(),
    mfa: z.boolean().optional(),
    mfa_meta: mfaMeta.optional(),
    auth_context: z
      .looseObject({
        auth_methods: z.record(z.string(), factor).optional(),
        system: z
          .looseObject({
            hostname: anyText.optional(),
            id: anyText.optional(),
            displayName: anyText.optional(),
            os: anyText.optional(),
            version: schemaVersion.optional(),
          })
          .optional(),
        policies_applied: z
          .array(z.looseObject({ name: anyText.optional(), id: anyText.optional() }))
          .optional(),
      })
      .optional(),
    application: z.looseObject({ id: anyText.optional(), name: anyText.optional() }).optional(),
    idm_client_id: anyText.optional(),
    message_chain: z
      .looseObject({
        response_code: schemaVersion.optional(),
        response_message: anyText.optional(),
        message_details: z.unknown().optional(),
      })
      .optional(),
    system: system.optional(),
    target_resource: z.looseObject({ type: anyText.optional() }).optional(),
  }),
  describe(event) {
    const meaning = common(event);
    const context = isFields(event.auth_context) ? event.auth_context : {};
    return {
      ...meaning,
      target: meaning.target ?? group(event) ?? applied(event),
      subject: subject(event, meaning.actor, meaning.target),
      device: meaning.device ?? device(context.system),
      // Calls to other systems leave their answer in message_chain.
      outcome: {
        ...meaning.outcome,
        code: meaning.outcome.code ?? text(event.message_chain, "response_code"),
      },
      message: meaning.message ?? text(event.message_chain, "response_message"),
      authentication: authentication(event, context.auth_methods, {
        service: text(event.target_resource, "type"),
      }),
    };
  },
});

function verbs(subjects: string, words: string): string[] {
  return subjects
    .split(" ")
    .flatMap((subjectName) => words.split(" ").map((word) => `${subjectName}_${word}`));
}

/** Who logs in is who initiated it; where nobody did, whom it is about. */
function subject(event: Fields, actor: Party | undefined, target: Party | undefined) {
  if (actor !== undefined) return actor;
  return target?.kind === "user" || target?.kind === "admin" ? target : named(event, undefined);
}

function group(event: Fields) {
  return party(event.system_group, "group");
}

function applied(event: Fields) {
  const app = application(event.application);
  return app && { kind: "application" as const, id: app.id, name: app.name };
}
