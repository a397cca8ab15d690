import { z } from "zod";
import { type Fields, isFields, isUser, type Party, text } from "../core/meaning.ts";
import { defineService } from "../core/service.ts";
import {
  anyText,
  association,
  authContext,
  correlation,
  eventBase,
  mfaMeta,
  schemaVersion,
  system,
  userAgent,
} from "./event-schema.ts";
import { application } from "./read/application.ts";
import { authentication } from "./read/authentication.ts";
import { common } from "./read/common.ts";
import { managedDevice } from "./read/device.ts";
import { named, party } from "./read/party.ts";

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
    ...verbs("redirect_uri server", "create delete update"),
    ...["ca_created", "cert_issued_manual", "cert_issued_self_service", "cert_revoked", "scep_issued"],
    ...["command_result", "group_warning", "policy_result", "system_admin_grant"],
    ...["risk_event_created", "risk_event_resolved", "risk_events_bulk_resolved"],
    ...["user_locked_out", "user_mfa_update"],
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
        displayName: anyText.optional(),
        hostname: anyText.optional(),
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
    username: anyText.optional(),
    severity: anyText.optional(),
    category: anyText.optional(),
    mfa: z.boolean().optional(),
    mfa_meta: mfaMeta.optional(),
    auth_context: authContext.optional(),
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
    const target = meaning.target ?? party(event.system_group, "group") ?? applied(event);
    return {
      ...meaning,
      target,
      subject: subject(event, meaning.actor, target),
      device: meaning.device ?? managedDevice(context),
      // Calls to other systems leave their answer in message_chain.
      outcome: {
        ...meaning.outcome,
        code: meaning.outcome.code ?? text(event.message_chain, "response_code"),
      },
      message: meaning.message ?? text(event.message_chain, "response_message"),
      risk: text(event, "severity"),
      category: text(event, "category"),
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

/** The actor logs in, under the name that was typed. Without an actor it is the user that the event is about. */
function subject(event: Fields, actor: Party | undefined, target: Party | undefined) {
  if (actor !== undefined) return named(event, actor);
  return isUser(target) ? target : named(event, undefined);
}

function applied(event: Fields) {
  const app = application(event.application);
  return app && { kind: "application" as const, id: app.id, name: app.name };
}
