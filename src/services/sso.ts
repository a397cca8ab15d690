import { z } from "zod";
import { type Authentication, type Fields, flag, type Outcome, text } from "../core/meaning.ts";
import { defineService } from "../core/service.ts";
import { anyText, eventBase, factor, mfaMeta, userAgent } from "./fields.ts";
import { authentication, common } from "./parts.ts";

/** Logins to applications. There is no `success` here: `sso_token_success` says whether a token was given. */
export const sso = defineService({
  name: "sso",
  eventTypes: ["sso_auth"],
  event: z.looseObject({
    ...eventBase,
    application: z
      .looseObject({
        id: anyText.optional(),
        name: anyText.optional(),
        display_label: anyText.optional(),
        sso_url: anyText.optional(),
      })
      .optional(),
    useragent: userAgent.optional(),
    idp_initiated: z.boolean().optional(),
    sso_token_success: z.boolean().optional(),
    mfa: z.boolean().optional(),
    mfa_meta: mfaMeta.optional(),
    auth_context: z.looseObject({ auth_methods: z.record(z.string(), factor).optional() }).optional(),
  }),
  describe(event) {
    const meaning = common(event);
    return {
      ...meaning,
      subject: meaning.actor,
      outcome: tokenOutcome(event, meaning.outcome),
      authentication: authentication(event, methods(event), { protocol: protocol(event) }),
    };
  },
});

/** Without a token and without an error the login has only come to its next step, a second factor. */
function tokenOutcome(event: Fields, told: Outcome): Outcome {
  const token = flag(event, "sso_token_success");
  if (told.by !== undefined || token === undefined) return told;
  if (token.value) return { ...told, is: "success", by: token };
  return told.reason === undefined ? told : { ...told, is: "failure", by: token };
}

function methods(event: Fields): unknown {
  const context = event.auth_context;
  return typeof context === "object" && context !== null ? (context as Fields).auth_methods : undefined;
}

function protocol(event: Fields): Authentication["protocol"] {
  const url = text(event.application, "sso_url")?.value.toLowerCase();
  return url?.includes("/saml") ? "saml" : undefined;
}
