import { z } from "zod";
import {
  type Authentication,
  decide,
  type Fields,
  flag,
  isFields,
  type Outcome,
  text,
  wordOf,
} from "../core/meaning.ts";
import { defineService } from "../core/service.ts";
import { anyText, authContext, eventBase, mfaMeta, userAgent } from "./event-schema.ts";
import { authentication } from "./read/authentication.ts";
import { common } from "./read/common.ts";
import { managedDevice } from "./read/device.ts";

/** Logins to applications. There is no `success` here: `sso_token_success` says whether a token was given. */
export const sso = defineService({
  name: "sso",
  eventTypes: ["sso_auth", "sso_auth_failed"],
  event: z.looseObject({
    ...eventBase,
    application: z
      .looseObject({
        id: anyText.optional(),
        name: anyText.optional(),
        display_label: anyText.optional(),
        sso_url: anyText.optional(),
        sso_type: anyText.optional(),
      })
      .optional(),
    useragent: userAgent.optional(),
    idp_initiated: z.boolean().optional(),
    sso_token_success: z.boolean().optional(),
    mfa: z.boolean().optional(),
    mfa_meta: mfaMeta.optional(),
    auth_context: authContext.optional(),
  }),
  describe(event) {
    const meaning = common(event);
    const context = isFields(event.auth_context) ? event.auth_context : {};
    return {
      ...meaning,
      subject: meaning.actor,
      device: meaning.device ?? managedDevice(context),
      outcome: tokenOutcome(event, meaning.outcome),
      authentication: authentication(event, context.auth_methods, { protocol: protocolOf(event) }),
    };
  },
});

/** Without a token and without an error, the login has only reached its next step, a second factor. */
function tokenOutcome(event: Fields, known: Outcome): Outcome {
  const token = flag(event, "sso_token_success");
  if (known.by !== undefined || token === undefined) return known;
  if (decide(token)) return { ...known, is: "success", by: token };
  const hasFailed = known.reason !== undefined || known.is === "failure";
  return hasFailed ? { ...known, is: "failure", by: token } : known;
}

function protocolOf(event: Fields): Authentication["protocol"] {
  const type = wordOf(text(event.application, "sso_type"));
  if (type.startsWith("saml")) return "saml";
  if (type === "oidc" || type === "openid") return "openid";
  return wordOf(text(event.application, "sso_url")).includes("/saml") ? "saml" : undefined;
}
